import { UsageError } from '../errors/errors.js';
import { LeaseLostError } from '../errors/run.errors.js';
import type { RunCheckpoint } from './cron-run.js';
import type { InFlightRun } from './in-flight-runs.js';
import type { JobRunRepository } from './job-run.repository.js';
import { requireUnderWay } from './run-context.js';

/** The largest checkpoint, in bytes of JSON: it is to say where to resume, not to hold the work. */
export const MOST_CHECKPOINT_BYTES = 1_048_576;

/** Deeper than anybody means to go, and far from where PostgreSQL or the stack gives up. */
const DEEPEST = 200;

/**
 * A checkpoint as it is stored. What would come back as something else is refused: all but the properties of objects
 * that are undefined, which are left out, and what has a `toJSON`, as dates have: those come back as text.
 * @throws UsageError that says where
 */
export function checkpointJson(value: unknown): string {
  check(value, 'value', []);
  const json = JSON.stringify(value);
  const bytes = Buffer.byteLength(json);
  if (bytes > MOST_CHECKPOINT_BYTES) {
    throw invalidCheckpoint(
      `it has ${bytes} bytes of JSON, and at most ${MOST_CHECKPOINT_BYTES} are kept. Save where to resume, such as a page or the last id, and not the work itself`,
    );
  }
  return json;
}

function invalidCheckpoint(problem: string): UsageError {
  return new UsageError('invalid-checkpoint', `The checkpoint can’t be kept: ${problem}.`);
}

function check(value: unknown, path: string, above: readonly object[]): void {
  const refuse = (what: string): never => {
    throw invalidCheckpoint(`${shortened(path)} is ${what}`);
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

/**
 * The checkpoint of one attempt: what is in the row as far as this process knows, and its writes in the order of their
 * calls.
 */
export class KeptCheckpoint implements RunCheckpoint {
  /** JSON; null for none; undefined when only the database knows. */
  private json: string | null | undefined;
  private last: Promise<unknown> = Promise.resolve();
  private waiting = 0;
  /** How many transactions have written it, or may have. */
  private others = 0;

  constructor(
    private readonly run: InFlightRun,
    private readonly store: JobRunRepository,
    /** The database has refused a write. */
    private readonly refused: () => LeaseLostError,
  ) {
    const { checkpoint } = run.owned;
    this.json = checkpoint && JSON.stringify(checkpoint.value);
  }

  get<Saved>(): Promise<Saved | undefined> {
    return this.inTurn('CronRun.checkpoint.get', async () => {
      if (this.json === undefined) await this.load();
      return this.json === null ? undefined : (JSON.parse(this.json!) as Saved);
    });
  }

  save(value: unknown): Promise<void> {
    return this.write('CronRun.checkpoint.save', () => checkpointJson(value));
  }

  clear(): Promise<void> {
    return this.write('CronRun.checkpoint.clear', () => null);
  }

  /** A transaction has committed, or may have: what it wrote is taken over only where nothing else is being written. */
  wrote(json: string | undefined): void {
    this.others += 1;
    this.json = this.waiting === 0 ? json : undefined;
  }

  private write(what: string, read: () => string | null): Promise<void> {
    let json: string | null;
    try {
      json = read();
    } catch (problem) {
      return this.tracked(Promise.reject(problem));
    }
    return this.inTurn(what, async () => {
      const { others } = this;
      this.json = undefined;
      if (!(await this.store.keepCheckpoint(this.run.owned, json))) throw this.refused();
      if (this.others === others) this.json = json;
    });
  }

  private async load(): Promise<void> {
    const saved = await this.store.checkpointOf(this.run.owned);
    if (saved === undefined) throw this.refused();
    this.json = saved && JSON.stringify(saved.value);
  }

  private inTurn<Result>(what: string, work: () => Promise<Result>): Promise<Result> {
    return this.tracked(this.enqueue(what, work));
  }

  private async enqueue<Result>(what: string, work: () => Promise<Result>): Promise<Result> {
    requireUnderWay(what, this.run);
    this.waiting += 1;
    const turn = this.last.then(() => {
      if (this.run.leaseLost) throw this.run.leaseLost;
      return work();
    });
    const done = () => void (this.waiting -= 1);
    this.last = turn.then(done, done);
    return this.run.whileOurs(turn);
  }

  private tracked<Result>(work: Promise<Result>): Promise<Result> {
    this.run.track(work);
    return work;
  }
}
