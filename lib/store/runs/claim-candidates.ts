import type { OverlapPolicy } from '../../domain/job-definition.js';
import type { RunKey } from '../../domain/runs/run.js';

/** The flag that a start asks for. */
export interface FlagToAsk {
  /** Asked in the claim, by the table; null for none. */
  readonly flag?: string | null;
  /** Why it is off whatever the table says: the application's provider says so. */
  readonly off?: string | null;
}

/** An occurrence somebody should claim. */
export interface DueOccurrence extends RunKey, FlagToAsk {
  /** The fire time plus the job's jitter: nobody may start it earlier. */
  readonly startsAt: Date;
  /** What the fire time was computed from. */
  readonly cron: string;
  readonly timeZone: string;
  readonly calendar: string | null;
  readonly overlap: OverlapPolicy;
  /** How many runs of the job may go on at a time; null for no limit. */
  readonly parallel: number | null;
  /** How many may wait in line, with the policy `queue`. */
  readonly queueLimit: number;
  readonly group?: string | null;
  /** How many runs of the group may go on at a time. */
  readonly groupLimit?: number | null;
  readonly leaseMs: number;
  /** Somebody asks for just this one, also of a time before the job was there. @default false */
  readonly byHand?: boolean;
  /** Somebody delivers it: it is queued for whoever has room, if it may run. @default nobody does */
  readonly delivery?: Delivery | null;
}

/** Who delivers an occurrence, and what its handler gets. */
export interface Delivery {
  readonly by: string | null;
  /** Null: what the job has. */
  readonly data: unknown;
}

/** A run that waits for its next attempt, as it was seen. */
export interface WaitingRun extends RunKey, FlagToAsk {
  readonly attempt: number;
  readonly overlap: OverlapPolicy;
  /** How many runs of the job may go on at a time; null for no limit. */
  readonly parallel?: number | null;
  readonly group?: string | null;
  /** How many runs of the group may go on at a time. */
  readonly groupLimit?: number | null;
  readonly leaseMs: number;
  /** When the schedule needs the place that the run would take; only a backfill gives way to it. @default never */
  readonly placeNeededAt?: Date | null;
}
