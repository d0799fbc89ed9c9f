import type { EventOf } from '../events/scheduler-event.js';
import { listed } from './phrases.js';

type Job = EventOf<'job.unregistered'>['jobs'][number];

const MOST_NAMES = 10;

/** What nobody runs any more, and what can be done about it. */
export function unregisteredLine(jobs: readonly Job[]): string {
  const declared = jobs.filter(({ missingHandler }) => missingHandler === null);
  const handlers = new Set(jobs.flatMap(({ missingHandler }) => missingHandler ?? []));
  return [
    ...(declared.length > 0 ? [declaredLine(declared)] : []),
    ...[...handlers].map((handler) => handlerLine(handler, jobs.filter(({ missingHandler }) => missingHandler === handler))),
  ].join('. ');
}

function declaredLine(jobs: readonly Job[]): string {
  const told = jobs.slice(0, MOST_NAMES);
  const gone = `No live instance declares ${names(jobs)} any more: ${areNotRun(jobs)}`;
  if (jobs.length > 1) {
    const same = told.flatMap(({ jobName, perhapsNow }) => (perhapsNow === null ? [] : [`${perhapsNow} as ${jobName} had`]));
    const advice = 'If one was renamed, declare the new name with previously and the old one, and it goes on where that was';
    return `${gone}. ${advice}${same.length > 0 ? `. Same schedule: ${listed(same, same.length)}` : ''}`;
  }
  const { jobName, perhapsNow } = jobs[0]!;
  return perhapsNow === null
    ? `${gone}. If it was renamed, declare the new name with previously: '${jobName}', and it goes on where that was`
    : `${gone}. ${perhapsNow} has the same schedule: if that is ${jobName} under a new name, declare it with previously: '${jobName}', and it goes on where that was`;
}

function handlerLine(handler: string, jobs: readonly Job[]): string {
  return `No live instance has the handler "${handler}" of ${names(jobs)}, made at run time: ${areNotRun(jobs)} until one has`;
}

function names(jobs: readonly Job[]): string {
  return listed(jobs.slice(0, MOST_NAMES).map(({ jobName }) => jobName), jobs.length);
}

function areNotRun(jobs: readonly Job[]): string {
  return jobs.length === 1 ? 'it is not run' : 'they are not run';
}
