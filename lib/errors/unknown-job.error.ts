import { SchedulerError } from './scheduler.error.js';

const WHY = {
  missing: (name: string, nearest: string | null) => `There is no job "${name}"${nearest === null ? '.' : `; did you mean "${nearest}"?`}`,
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
