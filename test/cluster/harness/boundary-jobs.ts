import type { Boundary, ReplicaJob, Step, Strike } from '../replica/settings.js';
import { randomFrom } from './random.js';

/** Where a job that is not cut at one boundary may be: anywhere. */
export type Place = Boundary | 'anywhere';

/** A job of the sweep, and where its run is to be cut. */
export interface BoundaryJob {
  readonly name: string;
  readonly place: Place;
  readonly seed: number;
  /** What its run does once each, whatever happens. */
  readonly entities: readonly string[];
  /** Those that get a mail besides. */
  readonly mailed: readonly string[];
  /** The entity at which it is cut, where there is one. */
  readonly cutAt: string | undefined;
  readonly steps: readonly Step[];
}

/** Boundaries at which all is done that its run is there for. */
export const WHEN_DONE: readonly Place[] = ['after the completion', 'after the completing commit'];

export const IN_A_RUN: readonly Place[] = [
  'before the effect',
  'inside the effect',
  'before its close',
  'before its commit',
  'after its commit',
  'before the mail',
  'after the mail',
  'before the step’s commit',
  'after the step’s commit',
  'before the completion',
  'after the completion',
  'before the completing commit',
  'after the completing commit',
  'anywhere',
];

/**
 * A job whose number of entities, their order, the one at which it is cut and the pauses in between come from the seed.
 */
export function boundaryJob(place: Place, seed: number, prefix: string): BoundaryJob {
  const random = randomFrom(seed * 7_919 + place.length * 104_729);
  const upTo = (most: number) => Math.floor(random() * most);
  const entities = Array.from(
    { length: place === 'anywhere' ? 8 : 1 + upTo(3) },
    (_, index) => `${'abcdefghijkl'[index]}${upTo(1_000)}`,
  );
  const pause = (): Step => ({ pauseMs: upTo(place === 'anywhere' ? 300 : 20) });
  const base = { name: `${prefix}: ${place}, seed ${seed}`, place, seed };
  const cutAt =
    place.includes('complet') || place.includes('claim') || place === 'anywhere'
      ? undefined
      : entities[upTo(entities.length)];
  if (place.includes('step') || place.includes('completing')) {
    const steps = [...entities.flatMap((page) => [{ page }, pause()]), { finish: 'total' }];
    return { ...base, entities: [...entities, 'total'], mailed: [], cutAt, steps };
  }
  const mailed = place.includes('mail') || place === 'anywhere' || seed % 2 === 0 ? entities : [];
  const steps = entities.flatMap((entity): Step[] => [
    { receipt: entity },
    pause(),
    ...(mailed.length > 0 ? [{ mail: entity }, pause()] : []),
  ]);
  return { ...base, entities, mailed, cutAt, steps };
}

/** As a replica is told it. Each fires once, at its time. */
export function replicaJobs(jobs: readonly BoundaryJob[], cronOf: (job: BoundaryJob) => string): ReplicaJob[] {
  return jobs.map((job) => ({
    name: job.name,
    steps: job.steps,
    cron: cronOf(job),
    timeZone: 'UTC',
    missed: 'all',
    catchUpWindow: '1h',
    maxAttempts: 20,
    overlap: 'forbid',
    backoff: 10,
  }));
}

export function strikeAt(jobs: readonly BoundaryJob[], signal: Strike['signal']): Strike {
  const cut = jobs.filter(({ place }) => place !== 'anywhere');
  return {
    signal,
    at: Object.fromEntries(
      cut.map(({ name, place, cutAt: entity }) => [name, { boundary: place as Boundary, ...(entity && { entity }) }]),
    ),
  };
}

/** An expression that fires at this instant, and then not for a year. */
export function cronAt(instant: Date): string {
  return [
    instant.getUTCSeconds(),
    instant.getUTCMinutes(),
    instant.getUTCHours(),
    instant.getUTCDate(),
    instant.getUTCMonth() + 1,
    '*',
  ].join(' ');
}
