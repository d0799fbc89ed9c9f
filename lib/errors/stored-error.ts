/** A thrown value as it is kept in the database. */
export interface StoredError {
  name: string;
  message: string;
  stack: string | null;
}

const MAX_MESSAGE = 4_000;
const MAX_STACK = 16_000;

/** Describes whatever was thrown, shortened and without what PostgreSQL refuses; never throws itself. */
export function describeError(thrown: unknown): StoredError {
  return {
    name: storable(read(thrown, 'name') ?? kindOf(thrown), 200),
    message: storable(read(thrown, 'message') ?? print(thrown), MAX_MESSAGE),
    stack: optional(stackOf(thrown)),
  };
}

/**
 * A text in a form that every database accepts, whatever its encoding: what is not printable ASCII is written as its
 * number.
 * @param limit its length at most
 */
export function plainText(text: string, limit: number): string {
  return text
    .slice(0, limit)
    .replace(/[^\n\x20-\x7e]/gu, (character) => `\\u{${character.codePointAt(0)!.toString(16)}}`)
    .slice(0, limit);
}

/** See {@link plainText}. */
export function plainError({ name, message, stack }: StoredError): StoredError {
  return {
    name: plainText(name, 200),
    message: plainText(message, MAX_MESSAGE),
    stack: stack && plainText(stack, MAX_STACK),
  };
}

/** With what the error was caused by: a driver's error behind a repository's, most often what really happened. */
function stackOf(thrown: unknown): string | null {
  const stack = read(thrown, 'stack');
  if (stack === null) return null;
  const causes = causesOf(thrown).map((cause) => `Caused by: ${read(cause, 'stack') ?? print(cause)}`);
  return [stack, ...causes].join('\n');
}

const MOST_CAUSES = 5;

function causesOf(thrown: unknown): unknown[] {
  const causes: unknown[] = [];
  for (let cause = causeOf(thrown); cause !== undefined && causes.length < MOST_CAUSES; cause = causeOf(cause))
    causes.push(cause);
  return causes;
}

function causeOf(thrown: unknown): unknown {
  if (typeof thrown !== 'object' || thrown === null) return undefined;
  try {
    return (thrown as { cause?: unknown }).cause ?? undefined;
  } catch {
    return undefined;
  }
}

/** A proxy may throw at every question, even at `instanceof`. */
function kindOf(thrown: unknown): string {
  try {
    return thrown instanceof Error ? 'Error' : typeof thrown;
  } catch {
    return typeof thrown;
  }
}

function read(thrown: unknown, property: 'name' | 'message' | 'stack'): string | null {
  if (typeof thrown !== 'object' || thrown === null) return null;
  try {
    const value = (thrown as Record<string, unknown>)[property];
    return typeof value === 'string' && value !== '' ? value : null;
  } catch {
    return null;
  }
}

function print(thrown: unknown): string {
  if (typeof thrown === 'string') return thrown;
  try {
    return JSON.stringify(thrown) ?? String(thrown);
  } catch {
    return `a value that cannot be printed (${typeof thrown})`;
  }
}

function optional(stack: string | null): string | null {
  return stack === null ? null : storable(stack, MAX_STACK);
}

/** PostgreSQL keeps neither NUL nor half a surrogate pair in jsonb. */
function storable(text: string, limit: number): string {
  const shortened = text.length > limit ? `${text.slice(0, limit)}… (${text.length - limit} more characters)` : text;
  return shortened.replaceAll('\u0000', '').toWellFormed();
}

/** The longest result a receipt keeps, in characters of JSON. */
const MAX_RESULT = 65_536;

/**
 * A result as a receipt keeps it, or null when it can't be kept: not JSON, too long, or with characters jsonb refuses.
 */
export function storableJson(value: unknown): string | null {
  try {
    const json = JSON.stringify(value) as string | undefined;
    if (json === undefined || json.length > MAX_RESULT) return null;
    return hasWhatJsonbRefuses(json) ? null : json;
  } catch {
    return null;
  }
}

/**
 * True for the character NUL and for halves of characters. An even number of backslashes before the `u` stands for
 * backslashes.
 */
export function hasWhatJsonbRefuses(json: string): boolean {
  return /(?<!\\)(?:\\\\)*\\u(?:0000|d[89a-f])/i.test(json);
}
