import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import {
  boundaryJob,
  cronAt,
  IN_A_RUN,
  replicaJobs,
  strikeAt,
  WHEN_DONE,
  type BoundaryJob,
  type Place,
} from './harness/boundary-jobs.js';
import { Cluster } from './harness/cluster.js';
import { eventually } from './harness/eventually.js';
import type { RunRow } from './harness/ledger.js';
import { MailSink } from './harness/mail-sink.js';
import type { Replica } from './harness/replica.js';
import type { Strike } from './replica/settings.js';

/** So many runs are cut at each boundary: all at a claim in one of the waves, half of the others in each. */
const SEEDS = 20;
const WAVES = ['before the claim', 'after the claim'] as const;

/** Until the victim is up, in seconds; more at another try. */
const LEADS = [12, 30, 60];

/** Every run has a place, and those that hold a transaction leave connections to the others. */
const SCHEDULER = { maxConcurrentRuns: 200, receiptPoolSize: 70 };

/** A replica with runs that are cut at every boundary. */
interface Wave {
  readonly jobs: readonly BoundaryJob[];
  readonly victim: Replica;
  /** Starts a replica that has all the jobs, and is struck by nothing. */
  readonly startHeir: () => Promise<Replica>;
}

describe('a sweep over every boundary of a run', () => {
  let cluster: Cluster;
  let sink: MailSink;
  beforeEach(async () => {
    cluster = await Cluster.create();
    sink = await MailSink.listen();
  });
  afterEach(async () => {
    await cluster.end();
    sink.close();
  });

  /** Starts the victim, and waits until it has been struck with all its runs at their boundaries. */
  async function strike(claim: Place, signal: Strike['signal'], lead = 0): Promise<Wave> {
    const half = seeds(WAVES[0] === claim ? 1 : 1 + SEEDS / 2, SEEDS / 2);
    const jobs = [
      ...IN_A_RUN.flatMap((place) => half.map((seed) => boundaryJob(place, seed, `try ${lead + 1}`))),
      ...seeds(1, SEEDS).map((seed) => boundaryJob(claim, seed, `try ${lead + 1}`)),
    ];
    const due = new Date((await cluster.ledger.now()).getTime() + LEADS[lead]! * 1_000);
    const claimed = new Date(due.getTime() + 2_000);
    const plan = {
      scheduler: SCHEDULER,
      smtpPort: sink.port,
      jobs: replicaJobs(jobs, ({ place }) => cronAt(place === claim ? claimed : due)),
    };
    const victim = await cluster.start(`victim ${lead + 1}`, { ...plan, strike: strikeAt(jobs, signal) });
    if ((await cluster.ledger.now()).getTime() > due.getTime() - 500) {
      await victim.kill();
      return strike(claim, signal, lead + 1);
    }
    await victim.freezing(LEADS[lead]! * 1_000 + 60_000);
    if (signal === 'SIGKILL') expect(await victim.exit).toEqual({ code: null, signal });
    return { jobs, victim, startHeir: () => cluster.start('heir', plan) };
  }

  /** The one row of each job, once all are done. */
  async function allDone(jobs: readonly BoundaryJob[]): Promise<Map<string, RunRow>> {
    const read = () =>
      cluster.database.query<RunRow>(
        `select job_name as "jobName", fire_time as "fireTime", status, attempt, claimed_by as "claimedBy" from job_runs where job_name = any ($1)`,
        [jobs.map(({ name }) => name)],
      );
    const rows = await eventually(
      `${jobs.length} runs to be done`,
      async () => {
        const found = await read();
        return found.length >= jobs.length && found.every(({ status }) => status === 'done') && found;
      },
      { withinMs: 90_000, seen: async () => (await read()).filter(({ status }) => status !== 'done') },
    );
    expect(rows).toHaveLength(jobs.length);
    return new Map(rows.map((row) => [row.jobName, row]));
  }

  /**
   * Each effect in the database is there once; each mail at least once, always under one Message-ID that is no other’s.
   */
  async function countEffects(jobs: readonly BoundaryJob[]): Promise<void> {
    const effects = await cluster.database.query<{ job: string; entity: string }>(
      'select job, entity from effects where job = any ($1)',
      [jobs.map(({ name }) => name)],
    );
    const written = groupBy(effects, ({ job }) => job);
    expect(jobs.map(({ name }) => [name, (written.get(name) ?? []).map(({ entity }) => entity).sort()])).toEqual(
      jobs.map(({ name, entities }) => [name, [...entities].sort()]),
    );

    const mails = groupBy(sink.mails, ({ jobName, fireTime, entity }) => `${jobName} | ${fireTime} | ${entity}`);
    const identities = groupBy(sink.mails, ({ messageId }) => messageId);
    expect(
      [...mails.values()]
        .map((same) => new Set(same.map(({ messageId }) => messageId)).size)
        .filter((ids) => ids !== 1),
    ).toEqual([]);
    expect(identities.size).toBe(mails.size);
    const reached = new Set(sink.mails.map(({ jobName, entity }) => `${jobName} | ${entity}`));
    expect(
      jobs
        .flatMap(({ name, mailed }) => mailed.map((entity) => `${name} | ${entity}`))
        .filter((mail) => !reached.has(mail)),
    ).toEqual([]);
  }

  const mailsTo = ({ name, cutAt }: BoundaryJob) =>
    sink.mails.filter(({ jobName, entity }) => jobName === name && entity === cutAt).length;

  /** The runs were cut, each where it was to be: the sweep is worth nothing otherwise. */
  function requireCuts(jobs: readonly BoundaryJob[], rows: ReadonlyMap<string, RunRow>, victim: Replica): void {
    const wrongs = jobs
      .map(({ name, place }) => ({ place, row: rows.get(name)! }))
      .filter(({ place, row }) => {
        const byVictim = row.claimedBy === victim.instanceId;
        return WHEN_DONE.includes(place) ? !byVictim : place === 'before the claim' ? byVictim : row.attempt < 2;
      });
    expect(wrongs).toEqual([]);
  }

  it.each(WAVES)(
    `B07 G1 G4 G5 kill -9 at each, ${SEEDS} runs: every occurrence has its row, every effect is there once (%s)`,
    async (claim) => {
      const { jobs, victim, startHeir } = await strike(claim, 'SIGKILL');
      await startHeir();
      const rows = await allDone(jobs);
      requireCuts(jobs, rows, victim);
      await countEffects(jobs);
      // What was cut between the mail and its receipt was sent again; nothing else was.
      const cutAtEntity = jobs.filter(({ cutAt, mailed }) => cutAt !== undefined && mailed.length > 0);
      expect(cutAtEntity.map((job) => [job.name, mailsTo(job)])).toEqual(
        cutAtEntity.map(({ name, place }) => [name, place === 'after the mail' ? 2 : 1]),
      );
    },
  );

  it.each(WAVES)(
    `G1 G3 G4 G5 SIGSTOP for longer than the lease at each, ${SEEDS} runs: thawed they change nothing (%s)`,
    async (claim) => {
      const { jobs, victim, startHeir } = await strike(claim, 'SIGSTOP');
      const heir = await startHeir();
      // Once it is thawed while its runs are being done by the heir, once when they are.
      if (claim === 'before the claim') await allDone(jobs);
      else await heir.event('run.claimed', { attempt: 2 });
      victim.thaw();
      const rows = await allDone(jobs);
      expect(await victim.stop()).toEqual({ code: 0, signal: null });

      expect(await allDone(jobs)).toEqual(rows);
      await countEffects(jobs);
      requireCuts(jobs, rows, victim);
      // The thawed process has heard of its losses, and took none of those attempts for completed.
      const done = new Set(jobs.filter(({ place }) => WHEN_DONE.includes(place)).map(({ name }) => name));
      const told = (type: 'lease.lost' | 'run.completed') =>
        victim
          .heard(type)
          .filter(({ jobName }) => !done.has(jobName))
          .map(({ jobName, attempt }) => `${jobName} | ${attempt}`);
      const lost = new Set(told('lease.lost'));
      expect(told('run.completed').filter((attempt) => lost.has(attempt))).toEqual([]);
      const losers = new Set([...lost].map((attempt) => attempt.split(' | ')[0]));
      expect(
        jobs.filter(
          ({ name, place }) =>
            place !== 'anywhere' && place !== 'before the claim' && !done.has(name) && !losers.has(name),
        ),
      ).toEqual([]);
    },
  );
});

function seeds(first: number, count: number): number[] {
  return Array.from({ length: count }, (_, index) => first + index);
}

function groupBy<Item>(items: readonly Item[], key: (item: Item) => string): Map<string, Item[]> {
  const groups = new Map<string, Item[]>();
  for (const item of items) groups.set(key(item), [...(groups.get(key(item)) ?? []), item]);
  return groups;
}
