/** The longest result a receipt keeps, in characters of JSON. */
const MAX_RESULT = 65_536;

/** A result as a receipt keeps it, or null when it can't be kept: not JSON, too long, or with characters jsonb refuses. */
export function storableJson(value: unknown): string | null {
  try {
    const json = JSON.stringify(value) as string | undefined;
    if (json === undefined || json.length > MAX_RESULT) return null;
    return hasWhatJsonbRefuses(json) ? null : json;
  } catch {
    return null;
  }
}

/** True for the character NUL and for halves of characters. An even number of backslashes before the `u` stands for backslashes. */
export function hasWhatJsonbRefuses(json: string): boolean {
  return /(?<!\\)(?:\\\\)*\\u(?:0000|d[89a-f])/i.test(json);
}
