import { hasWhatJsonbRefuses } from '../runs/stored-json.js';

/** A page as it is published: with an id of its own and data, or only its data, and then its place is its id. */
export type PageInput<Data = unknown> = { readonly id?: string | number; readonly data?: Data } | Data;

/** What became of one: an id, and its data as JSON; or what is wrong with it. */
export type PageReading = { readonly page: string; readonly data: string | null } | { readonly problem: string };

/** The longest data of one page, in characters of JSON. */
const MOST_DATA = 1_048_576;

/** The longest id, in characters. */
const MOST_ID = 200;

/**
 * Reads a page. An object with no other keys than `id` and `data` is one with its own id; everything else is data.
 * @param place how many were published before it in this attempt
 */
export function readPage(given: unknown, place: number): PageReading {
  const { id = place, data } = isWhole(given) ? given : { data: given };
  const page = typeof id === 'number' && Number.isSafeInteger(id) ? String(id) : id;
  if (!isPageId(page)) return { problem: `the id of page ${place} has to be a whole number, or a text of 1 to ${MOST_ID} characters without blanks around it` };
  const json = jsonOf(data);
  return json === undefined ? { problem: `page ${page}: its data have to be JSON of at most 1 MB, without NUL` } : { page, data: json };
}

export function isPageId(page: unknown): page is string {
  return typeof page === 'string' && page !== '' && page === page.trim() && page.length <= 2 * MOST_ID && [...page].length <= MOST_ID && !/[\p{Cc}\p{Cs}]/u.test(page);
}

function isWhole(given: unknown): given is { id?: unknown; data?: unknown } {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) return false;
  const keys = Object.keys(given);
  return keys.length > 0 && keys.every((key) => key === 'id' || key === 'data');
}

function jsonOf(data: unknown): string | null | undefined {
  if (data === undefined) return null;
  try {
    const json = JSON.stringify(data) as string | undefined;
    return json === undefined || json.length > MOST_DATA || hasWhatJsonbRefuses(json) ? undefined : json;
  } catch {
    return undefined;
  }
}
