import { InvalidCheckpointError } from '../errors/run.errors.js';

/** The largest checkpoint, in bytes of JSON: it is to say where to resume, not to hold the work. */
export const MOST_CHECKPOINT_BYTES = 1_048_576;

/** Deeper than anybody means to go, and far from where PostgreSQL or the stack gives up. */
const DEEPEST = 200;

/**
 * A checkpoint as it is stored. What would come back as something else is refused: all but the properties of objects
 * that are undefined, which are left out, and what has a `toJSON`, as dates have: those come back as text.
 * @throws InvalidCheckpointError that says where
 */
export function checkpointJson(value: unknown): string {
  check(value, 'value', []);
  const json = JSON.stringify(value);
  const bytes = Buffer.byteLength(json);
  if (bytes > MOST_CHECKPOINT_BYTES) {
    throw new InvalidCheckpointError(
      `it has ${bytes} bytes of JSON, and at most ${MOST_CHECKPOINT_BYTES} are kept. Save where to resume, such as a page or the last id, and not the work itself`,
    );
  }
  return json;
}

function check(value: unknown, path: string, above: readonly object[]): void {
  const refuse = (what: string): never => {
    throw new InvalidCheckpointError(`${shortened(path)} is ${what}`);
  };
  switch (typeof value) {
    case 'boolean':
      return;
    case 'number':
      return Number.isFinite(value) ? undefined : refuse(`${value}, which JSON does not have`);
    case 'string':
      return value.includes('\u0000') || !value.isWellFormed()
        ? refuse('a text with a NUL or with half a character, which PostgreSQL does not take')
        : undefined;
    case 'object':
      break;
    default:
      return refuse(
        value === undefined ? 'undefined; to have no checkpoint, call clear()' : `a ${typeof value}, which is no JSON`,
      );
  }
  if (value === null) return;
  if (above.includes(value)) return refuse('part of itself');
  if (above.length >= DEEPEST) return refuse(`more than ${DEEPEST} levels deep`);
  if ('toJSON' in value && typeof value.toJSON === 'function') {
    // An invalid date becomes null.
    if (value instanceof Date && Number.isNaN(value.getTime())) return refuse('an invalid date');
    return check(value.toJSON(), path, [...above, value]);
  }
  const inside = [...above, value];
  if (Array.isArray(value)) return value.forEach((item, index) => check(item, `${path}[${index}]`, inside));
  if (!isPlain(value))
    return refuse(
      `an instance of ${value.constructor?.name || 'a class'}, of which JSON keeps no more than the properties`,
    );
  for (const [name, item] of Object.entries(value)) {
    const at = /^[\w$]+$/.test(name) ? `${path}.${name}` : `${path}[${JSON.stringify(name)}]`;
    check(name, `a name in ${path}`, inside);
    if (item !== undefined) check(item, at, inside);
  }
}

/** Of whatever realm: its prototype is the last of its chain. */
function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

function shortened(path: string): string {
  return path.length > 200 ? `${path.slice(0, 100)}…${path.slice(-100)}` : path;
}
