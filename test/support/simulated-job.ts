import { planCatchUp, type HeldSpan } from '../../lib/catch-up/catch-up.js';
import { type MissedGap, planSuperseded } from '../../lib/jobs/undecided.js';
import type { JobDefinition } from '../../lib/options/job-definition.js';
import type { Schedule } from '../../lib/cron/schedule.js';
import { missedUntil } from '../../lib/jobs/job-cursors.js';
import type { DecidedSpan } from '../../lib/jobs/undecided.js';

interface SimulatedRow extends DecidedSpan {
  readonly count: number;
  status: 'running' | 'done' | 'queued' | 'skipped';
  readonly reason?: MissedGap['reason'];
  startedAt?: number;
  endsAt?: number;
}

/**
 * One job in a world without a database: replicas tick and catch up as the services do, each knowing by itself how far
 * it has come, and the rows they share decide. The clock is whatever it is told to be. Milliseconds.
 */
export class SimulatedJob {
  readonly rows = new Map<number, SimulatedRow>();
  readonly held: { since: number; until: number; reason: HeldSpan['reason'] }[] = [];
  /** Of each live replica, up to where it knows that all is decided. */
  private replicas: number[] = [];
  private remembered: number;

  constructor(
    public job: JobDefinition,
    effectiveFrom: number,
    /** How long the run of a fire time takes. */
    private readonly takes: (fireTime: number) => number,
  ) {
    this.remembered = effectiveFrom;
  }

  start(replicas: number): void {
    this.replicas = Array.from({ length: replicas }, () => this.remembered);
  }

  stopAll(): void {
    this.remembered = Math.max(this.remembered, ...this.replicas);
    this.replicas = [];
  }

  edit(schedule: Schedule, at: number): void {
    const gap = planSuperseded(
      this.job.schedule,
      { from: Math.max(this.remembered, ...this.replicas), until: at },
      this.decided,
    );
    if (gap) this.write({ ...gap, status: 'skipped' });
    this.job = { ...this.job, schedule };
    this.remembered = at;
    this.replicas = this.replicas.map(() => at);
  }

  running(from: number, startedAt: number, endsAt: number): void {
    this.write({ from, until: from, count: 1, status: 'running', startedAt, endsAt });
  }

  /** The next moment at which a replica would wake up by itself. */
  wakesAt(now: number): number {
    const due = this.replicas.length > 0 ? (this.job.schedule.nextAfter(now) ?? Infinity) : Infinity;
    return [...this.rows.values()].reduce(
      (next, { status, endsAt }) => (status === 'running' && endsAt! > now ? Math.min(next, endsAt!) : next),
      due,
    );
  }

  /** A pass of every replica: what was missed is planned, what is live starts, then what is queued. */
  tick(now: number): void {
    for (const row of this.rows.values()) if (row.status === 'running' && row.endsAt! <= now) row.status = 'done';
    this.replicas = this.replicas.map((decidedUntil) => this.claimLive(this.catchUp(decidedUntil, now), now));
    if (this.replicas.length > 0) this.claimQueued(now);
  }

  starts(): { slot: number; at: number }[] {
    const started = [...this.rows.values()].filter(({ startedAt }) => startedAt !== undefined);
    return started
      .map(({ until, startedAt }) => ({ slot: until, at: startedAt! }))
      .sort((a, b) => a.at - b.at || a.slot - b.slot);
  }

  /** How many occurrences were not run, for one of these reasons. */
  recorded(...reasons: MissedGap['reason'][]): SimulatedRow[] {
    return [...this.rows.values()].filter(({ reason }) => reason && reasons.includes(reason));
  }

  private get decided(): DecidedSpan[] {
    return [...this.rows.values()];
  }

  private catchUp(decidedUntil: number, now: number): number {
    const next = this.job.schedule.nextAfter(decidedUntil);
    if (next === null || next > missedUntil(now, this.job)) return decidedUntil;
    const plan = planCatchUp(this.job, { from: decidedUntil, now, held: this.held }, this.decided);
    for (const gap of plan.record) this.write({ ...gap, status: 'skipped' });
    for (const fireTime of plan.run) this.write({ from: fireTime, until: fireTime, count: 1, status: 'queued' });
    return plan.decidedUntil;
  }

  private claimLive(decidedUntil: number, now: number): number {
    for (const fireTime of this.job.schedule.between(decidedUntil, now)) {
      if (!this.rows.has(fireTime)) {
        const once = { from: fireTime, until: fireTime, count: 1 };
        const busySince = this.job.overlap === 'allow' ? null : this.busySince;
        const hold = this.held.find(({ since, until }) => since <= now && now < until);
        if (hold) this.write({ ...once, status: 'skipped', reason: hold.reason });
        else if (busySince === null) this.run(fireTime, now);
        else if (busySince <= fireTime) this.write({ ...once, status: 'skipped', reason: 'overlap' });
        else return fireTime - 1;
      }
    }
    return Math.max(decidedUntil, now);
  }

  private claimQueued(now: number): void {
    const queued = [...this.rows.values()]
      .filter(({ status }) => status === 'queued')
      .sort((a, b) => a.until - b.until);
    for (const { until } of queued) if (this.job.overlap === 'allow' || this.busySince === null) this.run(until, now);
  }

  /** A run that takes no time is over before anything else happens. */
  private run(fireTime: number, now: number): void {
    const endsAt = now + this.takes(fireTime);
    const status = endsAt > now ? 'running' : 'done';
    this.rows.set(fireTime, { from: fireTime, until: fireTime, count: 1, status, startedAt: now, endsAt });
  }

  private get busySince(): number | null {
    const running = [...this.rows.values()].filter(({ status }) => status === 'running');
    return running.length === 0 ? null : Math.min(...running.map(({ startedAt }) => startedAt!));
  }

  private write(row: SimulatedRow): void {
    if (this.rows.has(row.until)) throw new Error(`${new Date(row.until).toISOString()} is decided twice`);
    this.rows.set(row.until, row);
  }
}
