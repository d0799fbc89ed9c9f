import type { JobDefinition } from '../options/job-definition.js';
import type { RunTrigger } from '../options/run.js';

/** Since when the oldest occurrence that is due waits for each kind of places. Milliseconds. */
export type Contested = ReadonlyMap<string, number>;

/**
 * Whose turn it is where what comes due and what waits want the same few places: who has waited longer. A backlog is
 * one in this line as a whole, or a hundred runs that were caught up would all go before what is due: each of its runs
 * waits since the one before it has started here. Milliseconds by the database's clock.
 */
export class ContestedPlaces {
  private readonly backlogs = new Map<string, number>();

  /** When a backlog last had such a place as the job wants, on this instance. */
  backlogStartedAt(job: JobDefinition): number | null {
    return this.backlogs.get(placesOf(job) ?? '') ?? null;
  }

  started(runs: readonly { readonly job: JobDefinition; readonly trigger: RunTrigger }[], now: number): void {
    for (const { job, trigger } of runs) {
      const places = placesOf(job);
      if (places !== null && isBacklog({ trigger })) this.backlogs.set(places, now);
    }
  }
}

export function contestedBy(due: readonly { readonly job: JobDefinition; readonly startsAt: number }[]): Contested {
  const contested = new Map<string, number>();
  for (const { job, startsAt } of due) {
    const places = placesOf(job);
    if (places !== null) contested.set(places, Math.min(startsAt, contested.get(places) ?? Infinity));
  }
  return contested;
}

/** Of a run that waits: longer than everything that is due. */
export function isOlder({ since }: { readonly since: Date }, job: JobDefinition, contested: Contested): boolean {
  return since.getTime() < (contested.get(placesOf(job) ?? '') ?? -Infinity);
}

/** What a person asks for now is none: it may have the last slot, like what the schedule says. */
export function isBacklog({ trigger }: { readonly trigger: RunTrigger }): boolean {
  return trigger === 'catch-up' || trigger === 'backfill';
}

/** The places that runs of the job wait for, beside those of the instance; null when there are none. */
export function placesOf({ name, overlap, parallel, concurrencyGroup }: JobDefinition): string | null {
  if (concurrencyGroup) return `group ${concurrencyGroup.name}`;
  return overlap === 'allow' && parallel !== null ? `job ${name}` : null;
}
