import type { ClaimAnswer, ClaimAnswers } from '../../dist/lib/runs/claim.js';
import type { DueOccurrence } from '../../dist/lib/runs/claim.js';
import { runId, type RunKey } from '../../dist/lib/options/run.js';
import type { SimulatedTime } from './simulated-time.js';
import type { StatementCosts, StatementKind } from './statement-costs.js';

/** What of a job was decided last: fire times come in order. */
interface Decided {
  readonly fireTime: number;
  /** Others see it from here on. */
  readonly committedAt: number;
}

/** What was asked of it. */
export interface Asked {
  statements: number;
  /** Statements that brought whoever asked nothing: all that it was after was decided. */
  inVain: number;
  /** Milliseconds of one core. */
  busyMs: number;
}

/** It locks, and looks afresh. */
const CLAIM_STATEMENTS = 2;

/**
 * As much of a PostgreSQL as the scheduler's replicas notice of each other: which occurrences are decided, from their
 * commit on; the locks of jobs behind which claims wait; and cores, so that what comes at once is answered one after
 * the other.
 */
export class SimulatedDatabase {
  readonly asked = new Map<StatementKind, Asked>();
  /** Milliseconds from an occurrence's start until its claim was answered. */
  readonly delays: number[] = [];
  runs = 0;
  /** Instants, each with one who won something of it. */
  readonly won = new Set<string>();
  /**
   * Whole seconds, each with one who asked about occurrences in it, and how many of those questions brought something.
   */
  readonly askers = new Map<string, number>();
  private readonly decided = new Map<string, Decided>();
  /** When the leases end of those that run, in the order they began. */
  private readonly leases = new Map<string, Date>();
  private readonly lockedUntil = new Map<string, number>();
  private readonly freeAt: number[];

  constructor(
    private readonly time: SimulatedTime,
    private readonly costs: StatementCosts,
    { cores }: { cores: number },
  ) {
    this.freeAt = Array.from({ length: cores }, () => 0);
  }

  /** Forgets what was counted, and nothing else. */
  resetCounts(): void {
    this.asked.clear();
    this.delays.length = 0;
    this.won.clear();
    this.askers.clear();
    this.runs = 0;
  }

  async claim(due: readonly DueOccurrence[], instanceId: string): Promise<ClaimAnswers> {
    const names = due.map(({ jobName }) => jobName);
    const free = Math.max(0, ...names.map((name) => this.lockedUntil.get(name) ?? 0));
    const commitsAt = this.carryOut('claim', due.length, Math.max(0, free - this.time.now), CLAIM_STATEMENTS);
    for (const name of names) this.lockedUntil.set(name, commitsAt);
    await this.time.pass(commitsAt - this.time.now);
    const databaseNow = this.time.date;
    const answers = due.map((one) => this.judge(one, commitsAt));
    this.note(
      'claim',
      CLAIM_STATEMENTS,
      instanceId,
      answers.some(({ verdict }) => verdict !== 'taken'),
    );
    for (const { startsAt } of due.filter((_, index) => answers[index]!.verdict === 'claimed'))
      this.won.add(`${startsAt.getTime()} ${instanceId}`);
    return { databaseNow, answers };
  }

  async look(keys: readonly RunKey[], instanceId: string): Promise<RunKey[]> {
    const seenAt = this.time.now;
    await this.ask('look', keys.length);
    const found = keys.filter((key) => this.isDecided(key, seenAt));
    this.note('look', 1, instanceId, found.length < keys.length);
    return found;
  }

  end(run: RunKey): void {
    this.leases.delete(runId(run));
  }

  get nextExpiry(): Date | null {
    const [first] = this.leases.values();
    return first ?? null;
  }

  /** Any other statement: it decides nothing. */
  async ask(kind: StatementKind, size = 0): Promise<void> {
    await this.time.pass(this.carryOut(kind, size) - this.time.now);
  }

  private note(kind: StatementKind, statements: number, instanceId: string, brought: boolean): void {
    if (!brought) this.count(kind).inVain += statements;
    const asker = `${Math.floor(this.time.now / 1_000)} ${instanceId}`;
    this.askers.set(asker, (this.askers.get(asker) ?? 0) + Number(brought));
  }

  private judge({ jobName, fireTime, startsAt, leaseMs }: DueOccurrence, committedAt: number): ClaimAnswer {
    const nothing = {
      jobName,
      fireTime,
      reason: null,
      attempt: null,
      releases: null,
      trigger: null,
      beside: false,
      leaseUntil: null,
      pages: null,
      data: null,
      checkpoint: null,
    };
    const now = this.time.date.getTime();
    if (this.isDecided({ jobName, fireTime }, committedAt)) return { ...nothing, verdict: 'taken' };
    if (startsAt.getTime() > now) return { ...nothing, verdict: 'early' };
    this.decided.set(jobName, { fireTime: fireTime.getTime(), committedAt });
    this.runs += 1;
    this.delays.push(now - startsAt.getTime());
    const leaseUntil = new Date(now + leaseMs);
    this.leases.set(runId({ jobName, fireTime }), leaseUntil);
    return { ...nothing, verdict: 'claimed', attempt: 1, releases: 0, trigger: 'schedule', leaseUntil };
  }

  private isDecided({ jobName, fireTime }: RunKey, at: number): boolean {
    const last = this.decided.get(jobName);
    if (!last || last.fireTime < fireTime.getTime()) return false;
    return last.fireTime > fireTime.getTime() || last.committedAt <= at;
  }

  /**
   * @param lockedMs how long it waits for a lock, which costs nothing @returns when it is done, without the way to and
   * fro
   */
  private carryOut(kind: StatementKind, size: number, lockedMs = 0, statements = 1): number {
    const { baseMs, eachMs } = this.costs[kind];
    const cost = baseMs + Math.max(0, size - 1) * eachMs;
    const core = this.freeAt.indexOf(Math.min(...this.freeAt));
    const doneAt = Math.max(this.time.now, this.freeAt[core]!) + cost;
    this.freeAt[core] = doneAt;
    const asked = this.count(kind);
    asked.statements += statements;
    asked.busyMs += cost;
    return doneAt + lockedMs;
  }

  private count(kind: StatementKind): Asked {
    let asked = this.asked.get(kind);
    if (!asked) this.asked.set(kind, (asked = { statements: 0, inVain: 0, busyMs: 0 }));
    return asked;
  }
}
