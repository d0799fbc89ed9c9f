import { distance as editDistance } from 'fastest-levenshtein';

/** A call of the API stands where it can't work, or is given what it can't take: the code has to change. */
export type UsageErrorCode =
  /** Something of a run was asked for after its handler had ended, or after the run was completed or released. */
  | 'after-run'
  /** Something that belongs to a run was asked for where no run is. */
  | 'outside-run'
  /** A run was to be completed while something of it was still being written. */
  | 'open-work'
  /** A transaction inside another's would wait for a second connection while it holds the first, or for itself. */
  | 'nested-transaction'
  /** An effect in the database and one outside it have the same entity and effect. */
  | 'mixed-receipt'
  /** A receipt can't be written in the transaction, or on the data source, that `in` names. */
  | 'receipt-place'
  /** A transaction on another database can't hold what the scheduler writes. */
  | 'other-database'
  /** A service was called while Nest still makes the application's providers. */
  | 'too-early'
  /** The name of a receipt's entity or effect can't be stored. */
  | 'invalid-entity'
  /** A checkpoint can't be kept. */
  | 'invalid-checkpoint'
  /** What a handler published can't be its run's pages. */
  | 'invalid-pages'
  /** A decorator of this library stands where it can't work. */
  | 'invalid-decorator'
  /** The module is imported without its options, or more than once. */
  | 'invalid-module'
  /** What `@nestjs/schedule` does in one process, and no replica can do for all of them. */
  | 'not-distributed';

/** What surrounds the scheduler is not as it has to be: an administrator has to act. */
export type SetupErrorCode =
  /** The database can't be reached at the start; the message names where its address came from, never a password. */
  | 'database-unreachable'
  /** The database answers, and what it says keeps the scheduler from starting. */
  | 'database-unusable'
  /** The server is too old, or somebody else's tables have the names of the scheduler's. Nothing was changed. */
  | 'database-unfit'
  /** Tables are not there, or not those that this version needs. */
  | 'missing-tables'
  /** The schema is of a newer release, which does not serve this one any more. */
  | 'newer-schema'
  /** The role lacks rights; the message says what to grant. */
  | 'missing-rights'
  /** The database writes timestamps in a form that the driver does not read. */
  | 'date-style'
  /** A table has the name of a partition that is needed, and is none. */
  | 'detached-partition'
  /** The partitions of a backfill are missing and can't be made. */
  | 'missing-partition'
  /** The embedded PostgreSQL server could not be started. */
  | 'embedded-server'
  /** The heartbeat's thread can't start, or ended by itself. */
  | 'heartbeat-thread';

/** What an operator asked for is not possible as things stand. Nothing was changed. */
export type OperationErrorCode =
  /** Another transaction has held for seconds what would be changed: try again. */
  | 'busy'
  /** Others changed it each time between reading and writing: try again. */
  | 'changed-meanwhile'
  /** The run's status does not allow it. */
  | 'run-status'
  /** The job's state does not allow it. */
  | 'job-state'
  /** A job was to be made under a name that is taken. */
  | 'job-exists'
  /** The job is declared by code, or made at run time, and changed elsewhere. */
  | 'job-kind'
  /** The job's occurrences are decided under another name. */
  | 'job-renamed';

/** What was named is not there. */
export type NotFoundErrorCode = 'unknown-job' | 'unknown-run' | 'unknown-backfill';

/**
 * The base of every error this library throws on purpose: something a person has to act on.
 * What a healthy cluster does every minute (losing a claim, an occurrence that overlaps) is a value, never an error.
 */
export abstract class SchedulerError extends Error {
  constructor(
    /** Which error it is, for programs; the message is for people. docs/errors.md lists them. */
    readonly code: string,
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** Options that cannot be used, of the module, of jobs or of a call. All problems found are reported at once. */
export class InvalidOptionsError extends SchedulerError {
  constructor(
    /** Each says where it is and what is wrong; several errors can be joined into one by their problems. */
    readonly problems: readonly string[],
    message = problems.join('\n'),
  ) {
    super('invalid-options', message);
  }
}

/** A call of the API stands where it can't work, or is given what it can't take. `code` says which. */
export class UsageError extends SchedulerError {
  declare readonly code: UsageErrorCode;

  constructor(code: UsageErrorCode, message: string, options?: ErrorOptions) {
    super(code, message, options);
  }
}

/** The database, its tables or the process are not as the scheduler needs them. `code` says which. */
export class SetupError extends SchedulerError {
  declare readonly code: SetupErrorCode;

  constructor(code: SetupErrorCode, message: string, options?: ErrorOptions) {
    super(code, message, options);
  }
}

/** What was asked for is not possible now, and nothing was changed. `code` says why. */
export class OperationRefusedError extends SchedulerError {
  declare readonly code: OperationErrorCode;

  constructor(code: OperationErrorCode, message: string) {
    super(code, message);
  }
}

/** A job, a run or a backfill was named that is not there. `code` says which. */
export class NotFoundError extends SchedulerError {
  declare readonly code: NotFoundErrorCode;

  constructor(code: NotFoundErrorCode, message: string) {
    super(code, message);
  }
}

/**
 * Why a delivery names no occurrence that could be run, however often it is delivered; but for one that is too early.
 */
export type DeliveryProblem = 'off the grid' | 'too early' | 'nothing is due' | 'before the schedule';

/**
 * An occurrence was delivered that its job's schedule does not have, or whose time has not come. Nothing was written.
 */
export class DeliveryRefusedError extends SchedulerError {
  constructor(
    readonly jobName: string,
    readonly problem: DeliveryProblem,
    /** In words, with the nearest fire times where that helps. */
    why: string,
  ) {
    super('delivery-refused', `Job "${jobName}": the delivery is refused: ${why}.`);
  }
}

/** An expression, a zone or a calendar that can't be read or never fires; callers report it among their problems. */
export class InvalidScheduleError extends SchedulerError {
  constructor(what: 'cron' | 'time-zone' | 'calendar', message: string, options?: ErrorOptions) {
    super(`invalid-${what}`, message, options);
  }
}

/** @param problem what is wrong with the expression, as the end of a sentence */
export function invalidCron(expression: string, problem: string, options?: ErrorOptions): InvalidScheduleError {
  return new InvalidScheduleError('cron', `Cron "${expression}": ${problem}.`, options);
}

/** @param problem what is wrong with the zone, as the rest of a sentence with its stop */
export function invalidTimeZone(timeZone: string, problem: string, options?: ErrorOptions): InvalidScheduleError {
  return new InvalidScheduleError('time-zone', `Time zone "${timeZone}" ${problem}`, options);
}

/** @param problem what is wrong, as a sentence without its end */
export function invalidCalendar(problem: string): InvalidScheduleError {
  return new InvalidScheduleError('calendar', `${problem}.`);
}

/** @param nearest the name that was most likely meant */
export function unknownJob(jobName: string, nearest: string | null): NotFoundError {
  return new NotFoundError(
    'unknown-job',
    `There is no job "${jobName}"${nearest === null ? '.' : `; did you mean "${nearest}"?`}`,
  );
}

/** @param known the names of the jobs that this instance has */
export function unknownJobHere(jobName: string, known: readonly string[]): NotFoundError {
  const there = known.length > 0 ? known.map((name) => `"${name}"`).join(', ') : 'none';
  return new NotFoundError(
    'unknown-job',
    `There is no job "${jobName}" on this instance; there ${known.length === 1 ? 'is' : 'are'} ${there}. Ask an instance whose code declares it.`,
  );
}

export function unknownRun(jobName: string, fireTime: Date): NotFoundError {
  return new NotFoundError(
    'unknown-run',
    `There is no run of "${jobName}" at ${fireTime.toISOString()}: a run is named by its job and its exact fire time, see job_runs.`,
  );
}

/** @param yieldsTo the name to use */
export function renamedJob(jobName: string, yieldsTo: string): OperationRefusedError {
  return new OperationRefusedError(
    'job-renamed',
    `Job "${jobName}" is decided under the name "${yieldsTo}": name that one.`,
  );
}

/**
 * @param asked `cancel`, `pause`, …
 * @param what of what: `job "export"`
 */
export function busy(asked: string, what: string): OperationRefusedError {
  return new OperationRefusedError(
    'busy',
    `Cannot ${asked} ${what} now: another transaction has held its rows for seconds. Nothing was changed: try again, or look for that transaction in pg_stat_activity.`,
  );
}

/**
 * @param asked `run now`, `cancel`, …
 * @param reason why, and what to do
 */
export function refusedByState(jobName: string, asked: string, reason: string): OperationRefusedError {
  return new OperationRefusedError('job-state', `Job "${jobName}": ${asked} is refused: ${reason}.`);
}

/** @param problem why not, and what to do instead: the end of a sentence */
export function refusedByStatus(verb: string, run: Occurrence, status: string, problem: string): OperationRefusedError {
  return new OperationRefusedError('run-status', `Cannot ${verb} ${occurrence(run)}, which is ${status}: ${problem}.`);
}

export interface Occurrence {
  readonly jobName: string;
  readonly fireTime: Date;
}

/** An occurrence, for people. */
export function occurrence({ jobName, fireTime }: Occurrence): string {
  return `${jobName} of ${fireTime.toISOString()}`;
}

/**
 * The sentence of an option that there is not: the one that was meant, or all that there are. @param path stands before
 * each name: `defaults.`
 */
export function unknownOption(name: string, known: readonly string[], path = ''): string {
  const nearest = nearestTo(name, known);
  return `Unknown option "${path}${name}"; ${nearest === null ? `there are ${known.join(', ')}.` : `did you mean "${path}${nearest}"?`}`;
}

/** The name that was most likely meant; null when none is close. */
export function nearestTo(name: string, known: readonly string[]): string | null {
  const distances = known.map((candidate) => editDistance(name.toLowerCase(), candidate.toLowerCase()));
  const nearest = known[distances.indexOf(Math.min(...distances))];
  return nearest !== undefined && Math.min(...distances) <= Math.max(2, nearest.length / 3) ? nearest : null;
}
