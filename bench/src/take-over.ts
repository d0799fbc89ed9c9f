import { setTimeout as sleep } from 'node:timers/promises';
import type { Benchmark, Effort, Figure } from './benchmark.js';
import { onConnection, onServer, StatementCount } from './database.js';
import { Fleet } from './fleet.js';
import { machineNow } from './machine-clock.js';
import type { Start } from './replica.messages.js';

/** From the end of the dead replica's lease. */
const REACH_MS = 500;

/** With `fastFailover`, from the kill. */
const FAST_REACH_MS = 2_000;

/** Leases in milliseconds, and how often a replica that holds one is killed. */
const LEASES = [
  [2_000, 12],
  [10_000, 5],
  [120_000, 2],
] as const;
const QUICK_LEASES = [[1_000, 1]] as const;

const FAST_LEASE_MS = 120_000;
const FAST_ROUNDS = 12;

/** Three replicas that prove and look four times a second, some of them for each other. */
const STATEMENTS_REACH = 20;
const COUNTED_FOR_MS = 20_000;

/** When the job comes due, in seconds from the start of the fleet. */
const CHANCES = [8, 40];
const QUICK_CHANCES = [5, 15];

/** Handlers here never end, and nobody waits for them. */
const AT_ONCE = { shutdownTimeout: 0 };

type Settings = { readonly fastFailover?: boolean };

/** How it went once, in milliseconds: from the kill, and from the end of the lease that the dead replica had. */
interface TakeOver {
  readonly afterKill: number;
  readonly afterLease: number;
}

/**
 * A replica is killed in mid-run: how long until another has begun the next attempt. Of a handful of rounds the slowest
 * is the 99th percentile.
 */
export const takeOver: Benchmark = {
  name: 'take-over',
  about:
    'SIGKILL in mid-run with leases of 2, 10 and 120 s: from the end of the lease until the next attempt has begun; with fastFailover from the kill',

  async run({ quick }: Effort): Promise<Figure[]> {
    const figures: Figure[] = [];
    const chances = quick ? QUICK_CHANCES : CHANCES;
    for (const [leaseMs, rounds] of quick ? QUICK_LEASES : LEASES) {
      const value = await slowest(rounds, async () => (await once(chances, leaseMs)).afterLease);
      figures.push({ name: `take-over.after-lease-${leaseMs / 1_000}s`, value, unit: 'ms', floor: 0, reach: REACH_MS });
    }
    const value = await slowest(
      quick ? 1 : FAST_ROUNDS,
      async () => (await once(chances, FAST_LEASE_MS, { fastFailover: true })).afterKill,
    );
    figures.push({
      name: `take-over.fast-${FAST_LEASE_MS / 1_000}s`,
      value,
      unit: 'ms',
      floor: 0,
      reach: FAST_REACH_MS,
    });
    if (quick) return figures;
    const [statements, without] = [await statementsBesides({ fastFailover: true }), await statementsBesides()];
    figures.push({
      name: 'take-over.fast-statements',
      value: statements,
      unit: 'a second',
      floor: without,
      reach: STATEMENTS_REACH,
    });
    return figures;
  },
};

async function slowest(rounds: number, measure: () => Promise<number>): Promise<number> {
  let most = 0;
  for (let round = 0; round < rounds; round++) most = Math.max(most, await measure());
  return most;
}

async function once(chances: readonly number[], leaseMs: number, scheduler: Settings = {}): Promise<TakeOver> {
  return onServer(async (url) => {
    const renewEvery = Math.floor(leaseMs / 3);
    const jobs = [
      {
        name: 'long',
        expression: soon(chances),
        options: { lease: leaseMs, renewEvery, overlap: 'forbid' as const, missed: 'skip' as const },
      },
    ];
    const fleet = await Fleet.start(3, { url, jobs, handlerMs: 10 * leaseMs, scheduler: { ...scheduler, ...AT_ONCE } });
    try {
      const { owner, start } = await running(fleet);
      // Anywhere between two renewals.
      await sleep(Math.random() * Math.min(renewEvery, 10_000));
      const killedAt = machineNow();
      fleet.kill(owner);
      const leaseUntil = await leaseOf(url);
      const next = await nextAttempt(fleet, start, killedAt + 2 * leaseMs + 10_000).catch(async (error: Error) => {
        throw new Error(`${error.message} ${JSON.stringify({ leaseMs, start, killedAt, rows: await rowsOf(url) })}`);
      });
      return { afterKill: next.at - killedAt, afterLease: Math.max(0, next.at - leaseUntil) };
    } finally {
      await fleet.end();
    }
  });
}

/** Of all three replicas, while one run goes on. */
async function statementsBesides(scheduler: Settings = {}): Promise<number> {
  return onServer(async (url) => {
    const fleet = await Fleet.start(3, {
      url,
      jobs: [{ name: 'long', expression: soon(CHANCES) }],
      handlerMs: 3_600_000,
      scheduler: { ...scheduler, ...AT_ONCE },
    });
    try {
      const { start } = await running(fleet);
      // Away from what comes due meanwhile.
      await sleep(Math.max(0, start.fireTime + 4_000 - machineNow()));
      return await onConnection(url, async (client) => {
        const count = await StatementCount.on(client);
        await count.reset();
        await sleep(COUNTED_FOR_MS);
        return (await count.read()) / (COUNTED_FOR_MS / 1_000);
      });
    } finally {
      await fleet.end();
    }
  });
}

/** For whoever wonders why it failed. */
async function rowsOf(url: string): Promise<object[]> {
  return onConnection(
    url,
    async (client) =>
      (
        await client.query<object>(
          'select fire_time, status, attempt, reason, claimed_by, lease_until, started_at, next_attempt_at from job_runs order by 1',
        )
      ).rows,
  );
}

/** When the lease of the run ends that is under way, by the machine's clock, which is the database's, too. */
async function leaseOf(url: string): Promise<number> {
  return onConnection(url, async (client) => {
    const { rows } = await client.query<{ lease_until: Date }>(
      `select lease_until from job_runs where status = 'running'`,
    );
    return rows[0]!.lease_until.getTime();
  });
}

/**
 * Twice, should the fleet take long to start, and then not for most of an hour: what comes due in the moment in which a
 * lease ends may start in place of the run that was orphaned.
 * @param seconds from now
 */
function soon(seconds: readonly number[]): string {
  const times = seconds.map((later) => new Date(Date.now() + later * 1_000));
  const each = (part: (time: Date) => number) => [...new Set(times.map(part))].sort((one, other) => one - other).join();
  return `${each((time) => time.getUTCSeconds())} ${each((time) => time.getUTCMinutes())} * * * *`;
}

async function running(fleet: Fleet): Promise<{ owner: number; start: Start }> {
  for (let look = 0; look < 3_000; look++) {
    const reports = await fleet.reports();
    const owner = reports.findIndex(({ starts }) => starts.length > 0);
    if (owner >= 0) return { owner, start: reports[owner]!.starts[0]! };
    await sleep(20);
  }
  throw new Error('No handler began.');
}

async function nextAttempt(fleet: Fleet, { fireTime }: Start, until: number): Promise<Start> {
  while (machineNow() < until) {
    const next = (await fleet.reports())
      .flatMap(({ starts }) => starts)
      .find((start) => start.fireTime === fireTime && start.attempt > 1);
    if (next) return next;
    await sleep(20);
  }
  throw new Error('No other attempt began.');
}
