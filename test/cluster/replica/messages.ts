import type { SchedulerEvent } from 'nestjs-distributed-cron';
import type { Step } from './settings.js';

/** One attempt of one occurrence. */
export interface Attempt {
  readonly jobName: string;
  readonly fireTime: Date;
  readonly attempt: number;
}

/** What a replica tells its test. */
export type Report =
  | { readonly kind: 'standing by' }
  | { readonly kind: 'ready' }
  | { readonly kind: 'event'; readonly event: SchedulerEvent }
  | ({ readonly kind: 'gate'; readonly gate: string } & Attempt)
  | { readonly kind: 'freezing' }
  | { readonly kind: 'answer'; readonly id: number; readonly value: unknown; readonly error: string | null };

/** What a test tells its replica: the gate opens for one attempt, which does these steps and then goes on. */
export interface Opening extends Attempt {
  readonly gate: string;
  readonly steps: readonly Step[];
}

/** What a test has its replica call. */
export interface Call {
  readonly id: number;
  /** The name of the service's class. */
  readonly service: string;
  readonly method: string;
  readonly args: readonly unknown[];
}
