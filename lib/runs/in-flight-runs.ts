import { Injectable } from '@nestjs/common';
import type { JobDefinition } from '../options/job-definition.js';
import { runId, type OwnedRun } from '../options/run.js';
import { CancelledError, type LeaseLoss, LeaseLostError, ShutdownError } from '../errors/run.errors.js';
import { TimeoutError } from './outcome.js';
import { SchedulerEvents } from '../observe/scheduler-events.js';
import { monotonicNow } from '../database/clock.js';
import { LivenessProof } from './liveness-proof.js';

/** Why a handler was told to stop while its run is still this process': it decides how the run ends. */
export type StopReason = ShutdownError | TimeoutError | CancelledError;

/** A run whose handler is under way in this process. */
export class InFlightRun {
  private readonly controller = new AbortController();
  /** By the database's clock. */
  leaseUntil: Date;
  /** By the monotonic clock, milliseconds. */
  leaseDeadline: number;
  /** Set when what this process still writes about the run is refused. */
  leaseLost: LeaseLostError | null = null;
  /** Set when the handler was told to stop: the first reason, or that it was cancelled. */
  stopReason: StopReason | null = null;
  /** By the monotonic clock, milliseconds. */
  readonly startedAt = monotonicNow();
  /** The attempt's end is written: a lease that is gone now was not lost. */
  settled = false;
  /** The handler has ended: nothing more belongs to the run. */
  ended = false;
  /** The handler has published pages: the run may not be done when it has ended. */
  publishes = false;
  /** The attempt's end is being written. */
  ending = false;
  /** Its handler hands it over, and may go on for a while; whether that was accepted. */
  handedOver: Promise<boolean> | null = null;
  /** The handler has the run completed, and that is being written. */
  completing = false;
  /** When its signal was aborted, by the monotonic clock, milliseconds. */
  stoppedAt: number | null = null;
  /** See `TimeLimits`. */
  readonly limitsPassed = new Set<string>();
  private readonly open = new Set<Promise<unknown>>();
  private readonly losers = new Set<(error: LeaseLostError) => void>();

  constructor(
    readonly owned: OwnedRun,
    readonly job: JobDefinition,
    private readonly lifeline: LivenessProof | null = null,
  ) {
    this.leaseUntil = owned.leaseUntil;
    this.leaseDeadline = owned.leaseDeadline;
  }

  get id(): string {
    return runId(this.owned);
  }

  get signal(): AbortSignal {
    return this.controller.signal;
  }

  /** When the lease is renewed no more, whatever the handler does. By the monotonic clock, milliseconds. */
  get renewUntil(): number {
    return this.startedAt + this.job.maxRunTimeMs;
  }

  /** Until when the run is this process', if nothing more is heard. By the monotonic clock, milliseconds. */
  get ownedUntil(): number {
    return Math.min(this.leaseDeadline, this.lifeline?.deadlineOf(this.claimedAt) ?? Infinity);
  }

  /** Why the run is no longer this process', by its own count; null when it is. */
  lossAt(now: number): LeaseLoss | null {
    if (this.ownedUntil > now) return null;
    if (this.leaseDeadline > now) return 'cut off';
    return this.renewUntil <= now ? 'ran too long' : 'expired';
  }

  /** Whether the lease still holds in so many milliseconds, if nothing more is heard. */
  holdsFor(millis: number): boolean {
    return !this.leaseLost && monotonicNow() + millis < this.leaseDeadline;
  }

  /** This attempt has published pages, or an earlier one may have. */
  get mayHavePages(): boolean {
    return this.publishes || this.owned.attempt > 1;
  }

  /** When its claim was sent. */
  private get claimedAt(): number {
    return this.owned.leaseDeadline - this.owned.leaseMs;
  }

  /** The run's end waits for this work, also when the handler does not. */
  track<Work extends Promise<unknown>>(work: Work): Work {
    this.open.add(work);
    const close = () => this.open.delete(work);
    work.then(close, close);
    return work;
  }

  /** How much of that is not finished. */
  get openWork(): number {
    return this.open.size;
  }

  /** The work's result, or the lost lease if that comes first: a database that never answers holds up no handler. */
  whileOurs<Result>(work: Promise<Result>): Promise<Result> {
    return new Promise((resolve, reject) => {
      const done = () => this.losers.delete(reject);
      this.losers.add(reject);
      work.then(resolve, reject);
      work.then(done, done);
    });
  }

  /**
   * Takes nothing more, and waits for what the handler started and did not await.
   * @throws what the first of them failed with
   */
  async end(): Promise<void> {
    this.ended = true;
    const results = await Promise.allSettled([...this.open]);
    const failed = results.find((result) => result.status === 'rejected');
    if (failed) throw failed.reason;
  }

  renewed(leaseUntil: Date, leaseDeadline: number): void {
    // It comes too late: the handler was told to stop, and nothing revives the run here.
    if (this.leaseLost) return;
    this.leaseUntil = leaseUntil;
    this.leaseDeadline = leaseDeadline;
  }

  loseLease(cause: LeaseLoss): void {
    this.leaseLost = new LeaseLostError(this.owned, cause);
    this.stoppedAt ??= monotonicNow();
    this.controller.abort(this.leaseLost);
    for (const lose of this.losers) lose(this.leaseLost);
  }

  shutDown(): void {
    this.stop(new ShutdownError());
  }

  /** Tells the handler to stop; when it has, the run ends as cancelled, whatever it was told before. */
  cancel(reason: string): void {
    // It is done: there is nothing left to cancel.
    if (this.settled) return;
    this.stop(new CancelledError(this.owned, reason));
  }

  timeOut(limit: 'timeout' | 'maxRunTime'): void {
    this.stop(new TimeoutError(this.owned, limit, limit === 'timeout' ? this.job.timeoutMs! : this.job.maxRunTimeMs));
  }

  private stop(reason: StopReason): void {
    if (this.leaseLost || this.ending) return;
    if (!this.stopReason || reason instanceof CancelledError) this.stopReason = reason;
    this.stoppedAt ??= monotonicNow();
    this.controller.abort(reason);
  }
}

/** Keeps the leases of the runs that are under way. */
export interface RunKeeper {
  watch(runs: readonly InFlightRun[]): void;
  forget(run: InFlightRun): void;
}

/** The runs whose handlers are under way in this process. */
@Injectable()
export class InFlightRuns {
  private readonly runs = new Set<InFlightRun>();
  private readonly emptied = new Set<() => void>();
  private reserved = 0;
  private keeper: RunKeeper = { watch: () => {}, forget: () => {} };

  constructor(
    private readonly events: SchedulerEvents,
    /** Proves to others that this process lives. */
    readonly lifeline: LivenessProof = new LivenessProof(),
  ) {}

  get size(): number {
    return this.runs.size;
  }

  /**
   * Places that are not free: of runs under way, and of those that are being claimed. All, while this instance may be
   * taken for gone.
   */
  get taken(): number {
    return this.lifeline.mayClaim ? this.runs.size + this.reserved : Infinity;
  }

  /**
   * Does the work while so many places are kept for what it claims: the ticker and the reaper claim beside each other.
   */
  async reserving<Result>(places: number, work: () => Promise<Result>): Promise<Result> {
    this.reserved += places;
    try {
      return await work();
    } finally {
      this.reserved -= places;
    }
  }

  /** @param keeper told of every run before its handler begins, and when its lease need not be kept any more */
  keptBy(keeper: RunKeeper): void {
    this.keeper = keeper;
  }

  add(...runs: readonly InFlightRun[]): void {
    for (const run of runs) this.runs.add(run);
    this.keeper.watch(runs);
  }

  /** The run's end is written, and its handler may go on: its lease is kept no more. */
  forget(run: InFlightRun): void {
    this.keeper.forget(run);
  }

  /**
   * True when a handler of the job that lost its lease, or handed its run over, has not ended here. Nobody else knows
   * of it, so here the job must wait for it where overlap is forbidden; until its maximum run time, when it is given
   * up.
   */
  lingers({ name, overlap }: JobDefinition): boolean {
    return (
      overlap !== 'allow' &&
      this.list().some((run) => (run.leaseLost || run.handedOver) && !run.owned.beside && run.owned.jobName === name)
    );
  }

  remove(run: InFlightRun): void {
    this.forget(run);
    this.runs.delete(run);
    if (this.runs.size === 0) for (const tell of this.emptied) tell();
  }

  /** The run of that id and attempt, if it is still under way. */
  get(id: string, attempt: number): InFlightRun | undefined {
    return this.list().find((run) => run.id === id && run.owned.attempt === attempt);
  }

  list(): InFlightRun[] {
    return [...this.runs];
  }

  /**
   * What has lost its lease, or was completed, and has taken its maximum run time may never end: it takes no room here
   * any more, and holds nothing up.
   */
  giveUp(run: InFlightRun): void {
    if (!this.runs.has(run)) return;
    this.remove(run);
    const { jobName, fireTime, attempt } = run.owned;
    this.events.emit({ type: 'run.abandoned', jobName, fireTime, attempt });
  }

  /** Tells the handler that its run is no longer this process'; once. */
  lose(run: InFlightRun, cause: LeaseLoss): void {
    // Between the commit of its end and the answer, a beat finds the run ended and takes it for lost.
    if (run.leaseLost || run.settled || ((run.ending || run.completing) && cause === 'taken over')) return;
    run.loseLease(cause);
    const { jobName, fireTime, attempt } = run.owned;
    this.events.emit({ type: 'lease.lost', jobName, fireTime, attempt, cause });
  }

  /** Tells the handler where the time of its run is over, by this process' own count. @returns whether it is not */
  isOurs(run: InFlightRun, now = monotonicNow()): boolean {
    const loss = run.leaseLost ? null : run.lossAt(now);
    if (loss) this.lose(run, loss);
    return !run.leaseLost;
  }

  /** The database has refused what was to be written: the run is another's. @returns what is to be thrown */
  refused(run: InFlightRun): LeaseLostError {
    this.lose(run, 'taken over');
    return run.leaseLost ?? new LeaseLostError(run.owned, 'taken over');
  }

  /** Waits until nothing is under way, at most this many milliseconds. @returns true when nothing is */
  async drained(withinMs: number): Promise<boolean> {
    if (this.size === 0) return true;
    return new Promise((resolve) => {
      const end = (empty: boolean) => {
        clearTimeout(timer);
        this.emptied.delete(tell);
        resolve(empty);
      };
      const tell = () => end(true);
      const timer = setTimeout(() => end(false), withinMs);
      this.emptied.add(tell);
    });
  }
}
