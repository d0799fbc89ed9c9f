import type { SchedulerEvent } from 'nestjs-distributed-cron';

/** What a replica tells the process that started it. */
export type ReplicaMessage =
  | { readonly kind: 'ready' }
  | { readonly kind: 'failed'; readonly message: string }
  | { readonly kind: 'event'; readonly event: SchedulerEvent }
  /** A line that the application itself logged. */
  | { readonly kind: 'log'; readonly text: string };

/** What the process that started a replica has found out about a mail in doubt. */
export interface Finding {
  readonly idempotencyKey: string;
  /** The mail server has it. */
  readonly taken: boolean;
}
