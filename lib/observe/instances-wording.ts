import type { EventOf } from './scheduler-event.js';
import { listed } from './wordings.js';

const MOST_NAMES = 10;

/** Two applications halve each other's runs. */
export function sharedJobsLine({ application, other, jobs, handlers }: EventOf<'jobs.shared'>): string {
  const what = [named('job', jobs), named('handler', handlers)].filter((text) => text !== null).join(' and ');
  return (
    `The application "${other}" has ${what}, too, in the same schema as this one, "${application}": each occurrence runs in only one of them. ` +
    'Give each application a schema of its own (forRoot({ schema })) or other names; if the two are meant to share this work, give both one forRoot({ application })'
  );
}

/** Replicas that derive other fire times. */
export function differingZonesLine({ zones, tz, other, otherTz }: EventOf<'zones.differ'>): string {
  return (
    `The clock of ${listed(zones.slice(0, MOST_NAMES), zones.length)} changes otherwise by the time-zone data of ${other} (tz ${otherTz ?? 'unknown'}) than by those here ` +
    `(tz ${tz ?? 'unknown'}): the two derive other fire times, and a job in it may run twice or not at all. Let all replicas run the same version of Node.js, with the same time-zone data`
  );
}

function named(what: string, names: readonly string[]): string | null {
  if (names.length === 0) return null;
  return `the ${what}${names.length === 1 ? '' : 's'} ${listed(names.slice(0, MOST_NAMES), names.length)}`;
}
