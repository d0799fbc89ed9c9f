import { SchedulerError } from './scheduler.error.js';

/** The scheduler was asked for something while Nest still makes the providers of the application. */
export class TooEarlyError extends SchedulerError {
  constructor(asked: string) {
    super(
      `${asked} was called before the application's providers are there (in a constructor or a factory): call it in onModuleInit, or later.`,
    );
  }
}

/** A decorator of this library stands where it can't work. */
export class InvalidDecorationError extends SchedulerError {
  constructor(decorator: string, className: string, member: string | symbol, problem: string) {
    super(
      `@${decorator} on ${className}.${String(member)}: it ${problem}; decorate an instance method of a provider or controller.`,
    );
  }
}

/** What the code declares about its jobs can't be run: every problem found, each with the class, method and job. */
export class InvalidJobsError extends SchedulerError {
  constructor(readonly problems: readonly string[]) {
    super(`The declared jobs cannot be scheduled:\n${problems.map((problem) => `  - ${problem}`).join('\n')}`);
  }
}

/** A job was to be made under a name that is taken. */
export class JobExistsError extends SchedulerError {
  constructor(
    readonly jobName: string,
    madeAtRunTime: boolean,
  ) {
    super(
      madeAtRunTime
        ? `There is a job "${jobName}" already: change it with JobRegistry.update, or remove it first.`
        : `There is a job "${jobName}" already, declared by code: give the new one another name.`,
    );
  }
}

const WHY = {
  missing: (name: string, nearest: string | null) =>
    `There is no job "${name}"${nearest === null ? '.' : `; did you mean "${nearest}"?`}`,
  'declared by code': (name: string) =>
    `Job "${name}" is declared by code: change its decorator, or pause it; only jobs made with JobRegistry.add can be changed here.`,
  'made at run time': (name: string) => `Job "${name}" was made at run time: change it with JobRegistry.update.`,
};

/** A job was named that is not there, or not known where it has to be, or that the named operation can't change. */
export class UnknownJobError extends SchedulerError {
  /**
   * @param why the names of the jobs that are known where this one is not, if that is why
   * @param nearest the name that was most likely meant
   */
  constructor(
    readonly jobName: string,
    why: keyof typeof WHY | readonly string[],
    nearest: string | null = null,
  ) {
    super(typeof why === 'string' ? WHY[why](jobName, nearest) : unknownHere(jobName, why));
  }
}

function unknownHere(jobName: string, known: readonly string[]): string {
  const there = known.length > 0 ? known.map((name) => `"${name}"`).join(', ') : 'none';
  return `There is no job "${jobName}" on this instance; there ${known.length === 1 ? 'is' : 'are'} ${there}. Ask an instance whose code declares it.`;
}

/** A job was named whose occurrences are decided under another name. */
export class RenamedJobError extends SchedulerError {
  constructor(
    readonly jobName: string,
    /** The name to use. */
    readonly yieldsTo: string,
  ) {
    super(`Job "${jobName}" is decided under the name "${yieldsTo}": name that one.`);
  }
}

/** The module is imported without its options: nothing would ever run. */
export class MissingForRootError extends SchedulerError {
  constructor() {
    super(
      'DistributedSchedulerModule is imported as it is, and so schedules nothing: import DistributedSchedulerModule.forRoot().',
    );
  }
}

/** Two schedulers in one application would run every job's ticker twice. */
export class RepeatedModuleError extends SchedulerError {
  constructor(importedBy: readonly string[]) {
    super(
      `DistributedSchedulerModule.forRoot() is imported ${importedBy.length} times (by ${importedBy.join(' and by ')}). ` +
        'Import it once, in the root module: its services are global.',
    );
  }
}

/** Something that belongs to a run was asked for where no run is. */
export class OutsideRunError extends SchedulerError {
  constructor(what: string) {
    super(
      `${what} was called outside a run. Call it from a @DistributedCron handler, or from what the handler awaits; ` +
        'a timer or listener that was set up before the run began does not belong to it.',
    );
  }
}
