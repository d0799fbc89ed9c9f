import type { DistributedCronOptions, DistributedSchedulerOptions } from '../../dist/lib/index.js';

/** What a replica of a benchmark is started with. */
export interface ReplicaPlan {
  readonly url: string;
  readonly jobs: readonly {
    readonly name: string;
    readonly expression: string;
    readonly options?: DistributedCronOptions;
  }[];
  readonly scheduler?: Partial<DistributedSchedulerOptions>;
  /** How long each handler takes, in milliseconds. @default 0 */
  readonly handlerMs?: number;
}

/** A handler that began, by the machine's clock, in milliseconds. */
export interface Start {
  readonly jobName: string;
  readonly fireTime: number;
  readonly attempt: number;
  readonly at: number;
}

/** What a replica did since it was asked last. */
export interface ReplicaReport {
  readonly starts: readonly Start[];
  /** Since the process began, all threads. */
  readonly cpuMicros: number;
  /** When this was said, by the machine's clock, in milliseconds. */
  readonly at: number;
  readonly megabytes: number;
}

/** From the benchmark to its replica. */
export type Order =
  | { readonly type: 'report' }
  | { readonly type: 'block'; readonly millis: number }
  | { readonly type: 'close' };

/** From the replica to its benchmark. */
export type Told = { readonly type: 'ready' } | { readonly type: 'report'; readonly report: ReplicaReport };
