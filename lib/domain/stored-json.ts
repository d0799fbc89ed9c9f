/** The longest result a receipt keeps, in characters of JSON. */
const MAX_RESULT = 65_536;

/** A result as a receipt keeps it, or null when it can't be kept: not JSON, too long, or with characters jsonb refuses. */
export function storableJson(value: unknown): string | null {
  try {
    const json = JSON.stringify(value) as string | undefined;
    if (json === undefined || json.length > MAX_RESULT) return null;
    return /\\u(0000|d[89a-f])/i.test(json) ? null : json;
  } catch {
    return null;
  }
}
