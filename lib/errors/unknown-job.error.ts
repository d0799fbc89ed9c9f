import { SchedulerError } from './scheduler.error.js';

/** A job was named that is not there, or not known where it has to be, or that the named operation can't change. */
export class UnknownJobError extends SchedulerError {
  /** @param why the names of the jobs that are known where this one is not, if that is why */
  constructor(
    readonly jobName: string,
    why: 'missing' | 'declared by code' | readonly string[],
  ) {
    super(reason(jobName, why));
  }
}

function reason(jobName: string, why: 'missing' | 'declared by code' | readonly string[]): string {
  if (why === 'missing') return `There is no job "${jobName}".`;
  if (why === 'declared by code') {
    return `Job "${jobName}" is declared by code: change its decorator, or pause it; only jobs made with JobRegistry.add can be changed here.`;
  }
  const there = why.length > 0 ? why.map((name) => `"${name}"`).join(', ') : 'none';
  return `There is no job "${jobName}" on this instance; there ${why.length === 1 ? 'is' : 'are'} ${there}. Ask an instance whose code declares it.`;
}
