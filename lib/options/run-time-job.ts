import type { JobDefinition, DistributedCronOptions } from './job-definition.js';
import { hasWhatJsonbRefuses } from '../errors/stored-error.js';
import { InvalidOptionsError, unknownOption } from '../errors/errors.js';
import { JOB_OPTIONS, type ResolvedJobDefaults } from './defaults.js';
import { expected } from './option-rules.js';
import { resolveJob } from './resolve-job.js';
import { problemsOfRetention } from './retention.js';

/** A job made at run time. Its options are those of `@DistributedCron`, as far as they can be stored. */
export interface RunTimeJob extends Omit<DistributedCronOptions, 'name' | 'previously'> {
  readonly name: string;
  /** Five cron fields, or six with seconds first, an alias such as `@daily`, or an interval: `every 90s`. */
  readonly cron: string;
  /** The name of a `@DistributedCronHandler`. */
  readonly handler: string;
  /** What its handler gets as `run.data`: anything that JSON can hold. */
  readonly data?: unknown;
}

/** What a job made at run time is read with. */
interface RunTimeContext {
  /** For people: `JobRegistry.add`. */
  readonly calledAs: string;
  /** The handlers that live instances have. */
  readonly handlers: readonly string[];
  readonly defaults: ResolvedJobDefaults;
  /** How long history is kept, in milliseconds; null for always. */
  readonly retentionMs: number | null;
}

const { name: _, previously: __, ...BESIDES } = JOB_OPTIONS;
const OPTIONS: readonly string[] = ['name', 'cron', 'handler', 'data', ...Object.keys(BESIDES)];

/** More than that belongs into a table of the application's. Characters of JSON. */
const MOST_DATA = 100_000;

/**
 * Reads a job made at run time.
 * @throws InvalidOptionsError with every problem
 */
export function resolveRunTimeJob(given: RunTimeJob, context: RunTimeContext) {
  const place = `${context.calledAs}: job ${JSON.stringify(given?.name)}`;
  if (typeof given !== 'object' || given === null)
    throw new InvalidOptionsError([`${context.calledAs}: expected an object with name, cron and handler.`]);
  const { name, cron, handler, data, ...others } = given;
  const { options, problems: unknown } = knownOptions(others);
  const problems = [
    ...unknown,
    ...problemsOfCron(cron),
    ...problemsOfHandler(handler, context.handlers),
    ...problemsOfStoring(options, data),
  ].map((problem) => `${place}: ${problem}`);
  try {
    const job = storedDefinition(
      { name, cron: typeof cron === 'string' ? cron : '* * * * *', options, data },
      context.calledAs,
      context.defaults,
    );
    problems.push(...problemsOfRetention(job, context.retentionMs));
    // With its zone, whatever the default is elsewhere or after the next deploy.
    if (problems.length === 0)
      return { job, parts: { handler, options: { ...options, timeZone: job.schedule.timeZone }, data } };
  } catch (error) {
    if (!(error instanceof InvalidOptionsError)) throw error;
    problems.push(...error.problems);
  }
  throw new InvalidOptionsError(problems);
}

/**
 * What is to change of a job made at run time.
 * @throws InvalidOptionsError
 */
export function readChanges(jobName: string, changes: unknown, calledAs: string): Partial<RunTimeJob> {
  const place = `${calledAs}: job ${JSON.stringify(jobName)}`;
  if (typeof changes !== 'object' || changes === null || Array.isArray(changes)) {
    throw new InvalidOptionsError([
      `${place}: ${expected('an object with what is to change, such as { cron }', changes).problem}.`,
    ]);
  }
  const { name, ...given } = Object.fromEntries(Object.entries(changes).filter(([, value]) => value !== undefined));
  if (name !== undefined && name !== jobName) {
    throw new InvalidOptionsError([
      `${place}: name: a job keeps its name; add one that is named ${JSON.stringify(name)} and remove this one.`,
    ]);
  }
  return given;
}

/**
 * The definition of a job made at run time, from what the database keeps of it.
 * @throws InvalidOptionsError for what a newer version of this library, or a person, stored
 */
export function storedDefinition(
  {
    name,
    cron,
    options,
    data,
  }: { name: string; cron: string; options: Readonly<Record<string, unknown>> | object; data: unknown },
  declaredBy: string,
  defaults: ResolvedJobDefaults,
): JobDefinition {
  return resolveJob({ expression: cron, options: { ...options, name }, defaultName: '', declaredBy, data, defaults });
}

/** What is not among them would be told of as if it stood in a decorator. */
function knownOptions(given: object): { options: Readonly<Record<string, unknown>>; problems: string[] } {
  const named = (isKnown: boolean) => Object.entries(given).filter(([name]) => OPTIONS.includes(name) === isKnown);
  const problems = named(false).map(([name]) =>
    name === 'previously' ? 'previously: only for jobs that the code declares.' : unknownOption(name, OPTIONS),
  );
  return { options: Object.fromEntries(named(true)), problems };
}

function problemsOfCron(cron: unknown): string[] {
  return typeof cron === 'string' ? [] : [`cron: ${expected('a cron expression such as "15 2 * * *"', cron).problem}.`];
}

function problemsOfHandler(handler: unknown, known: readonly string[]): string[] {
  if (known.includes(handler as string)) return [];
  const there = known.length > 0 ? `there are ${known.join(', ')}` : 'there is none';
  return [`handler: no live instance has a method with @DistributedCronHandler(${JSON.stringify(handler)}); ${there}.`];
}

function problemsOfStoring(options: object, data: unknown): string[] {
  const functions = Object.entries(options).flatMap(([name, value]) =>
    typeof value === 'function' ? [`${name}: a function cannot be stored.`] : [],
  );
  return [...functions, ...problemsOfData(data)];
}

/** What is wrong with what a handler is to get. */
export function problemsOfData(data: unknown): string[] {
  if (data === undefined) return [];
  try {
    const json = JSON.stringify(data) as string | undefined;
    if (json === undefined) return ['data: expected something that JSON can hold.'];
    if (hasWhatJsonbRefuses(json))
      return ['data: PostgreSQL stores no text with the character NUL or halves of characters.'];
    return json.length > MOST_DATA
      ? [`data: expected at most ${MOST_DATA} characters of JSON, got ${json.length}.`]
      : [];
  } catch (error) {
    return [`data: expected something that JSON can hold (${(error as Error).message}).`];
  }
}
