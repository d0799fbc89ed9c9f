import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { EVERY_SECOND } from './harness/crons.js';
import { eventually } from './harness/eventually.js';
import { FreezeGround, RARELY, type Walker } from './harness/freeze-ground.js';
import type { ReplicaJob, ReplicaSettings } from './replica/settings.js';

/** Something that a scheduler does by itself. */
interface Duty {
  /** As in: a process that is frozen at any message while it … */
  readonly does: string;
  /** @param name for a job that no other test and no other process has */
  readonly ready: (name: string) => Promise<{ walker: Walker; act: () => Promise<unknown> }>;
  /** A lock that it is meant to hold as long as it lives. */
  readonly keeps?: string;
}

let ground: FreezeGround;
let named = 0;

beforeAll(async () => void (ground = await FreezeGround.make()));
afterAll(() => ground.end());

const by = { by: 'an operator', reason: 'a test' };
const query = (sql: string, values: unknown[] = []) => ground.cluster.database.query(sql, values);
const job = (name: string, more: Partial<ReplicaJob> = {}): ReplicaJob => ({
  name,
  cron: RARELY,
  overlap: 'forbid',
  steps: [],
  ...more,
});
const walkerOf = (jobs: readonly ReplicaJob[], scheduler: ReplicaSettings['scheduler'] = {}) =>
  ground.start('walker', { jobs, scheduler });
const starting = (jobs: readonly ReplicaJob[], scheduler: ReplicaSettings['scheduler'] = {}) =>
  ground.fork('walker', { jobs, scheduler });

/** A run of the job whose replica was killed, and which another one is there to take over. */
async function leftBehind(name: string, scheduler: ReplicaSettings['scheduler'] = {}) {
  const lease = scheduler.fastFailover ? '20s' : '1s';
  const victim = await ground.cluster.start('victim', {
    jobs: [job(name, { lease, steps: [{ gate: 'in hand' }] })],
    scheduler: { pollInterval: '500ms', ...scheduler },
  });
  const { fireTime } = await victim.call<{ fireTime: Date }>('SchedulerService', 'runNow', name, by);
  await victim.atGate('in hand', { jobName: name });
  const walker = await walkerOf([job(name, { lease })], scheduler);
  const act = async () => {
    await victim.kill();
    await walker.replica.event('run.completed', { jobName: name, fireTime });
  };
  return { walker, act };
}

const DUTIES: readonly Duty[] = [
  {
    does: 'starts with jobs that are new',
    ready: async (name) => {
      const walker = await starting([job(name), job(`${name}, another`, { cron: EVERY_SECOND })]);
      return { walker, act: () => walker.replica.ready() };
    },
  },
  {
    does: 'starts with partitions to make',
    ready: async (name) => {
      const [last] = await query(
        `select max(relname) as name from pg_class where relname like 'receipts\\_2%' and relkind = 'r'`,
      );
      await query(`drop table "${last!['name'] as string}"`);
      const walker = await starting([job(name)]);
      return { walker, act: () => walker.replica.ready() };
    },
  },
  {
    does: 'claims what is due, runs it and ends it, also as failed and dead',
    ready: async (name) => {
      const walker = await walkerOf([
        job(name, { cron: EVERY_SECOND }),
        job(`${name}, failing`, { cron: EVERY_SECOND, maxAttempts: 2, backoff: '100ms', steps: [{ fail: 'broken' }] }),
      ]);
      const since = await ground.cluster.ledger.now();
      const done = () =>
        query(`select from job_runs where job_name = $1 and status = 'done' and fire_time > $2`, [
          name,
          since.toISOString(),
        ]);
      return {
        walker,
        act: () =>
          Promise.all([
            eventually('two runs', async () => (await done()).length >= 2),
            walker.replica.event('run.dead', { jobName: `${name}, failing` }),
          ]),
      };
    },
  },
  { does: 'reaps and takes over what a killed replica left', ready: (name) => leftBehind(name) },
  {
    does: 'takes over, by fast failover, what a killed replica left',
    ready: (name) => leftBehind(name, { fastFailover: true }),
    keeps: 'idle: ExclusiveLock advisory',
  },
  {
    does: 'catches up what was missed',
    ready: async (name) => {
      const walker = await walkerOf([job(name, { cron: EVERY_SECOND, missed: 'all', lateAfter: '1s' })]);
      const { fireTime } = await walker.replica.event('run.completed', { jobName: name });
      walker.replica.freeze();
      await eventually(
        'occurrences to be missed',
        async () => (await ground.cluster.ledger.now()).getTime() > fireTime.getTime() + 5_000,
      );
      const act = async () => {
        walker.replica.thaw();
        await walker.replica.event('run.missed', { jobName: name });
        await eventually(
          'one to be caught up',
          async () =>
            (
              await query(`select from job_runs where job_name = $1 and trigger = 'catch-up' and status = 'done'`, [
                name,
              ])
            ).length > 0,
        );
      };
      return { walker, act };
    },
  },
  {
    does: 'feeds a backfill and runs it',
    ready: async (name) => {
      const hourly = job(name, { cron: '0 * * * *' });
      const walker = await walkerOf([hourly]);
      const asker = await ground.cluster.start('asker', { jobs: [hourly], scheduler: { enabled: false } });
      const hour = Math.floor(Date.now() / 3_600_000) * 3_600_000;
      const act = async () => {
        await asker.call(
          'SchedulerService',
          'backfill',
          name,
          new Date(hour - 10 * 3_600_000),
          new Date(hour - 9 * 3_600_000),
        );
        await walker.replica.event('backfill.finished', {});
        await asker.kill();
      };
      return { walker, act };
    },
  },
  {
    does: 'remembers its watermarks',
    ready: async (name) => {
      const walker = await walkerOf([job(name, { cron: EVERY_SECOND })]);
      await walker.replica.event('run.completed', { jobName: name });
      return { walker, act: () => walker.replica.call('WatermarkService', 'remember') };
    },
  },
  {
    does: 'drops a partition that is over',
    ready: async (name) => {
      for (const table of ['job_runs', 'receipts', 'job_pages']) {
        await query(
          `create table ${table}_2020_01 partition of ${table} for values from ('2020-01-01+00') to ('2020-02-01+00')`,
        );
      }
      const walker = await walkerOf([job(name)], { retention: '30d' });
      const act = async () => {
        await walker.replica.call('RetentionService', 'forget');
        expect(walker.replica.heard('partition.dropped')).toHaveLength(1);
      };
      return { walker, act };
    },
  },
  {
    does: 'prunes what operators did long ago',
    ready: async (name) => {
      await query(
        `insert into job_actions (action, job_name, actor, at) select 'pause', 'long ago', 'somebody', timestamptz '2020-01-01 00:00+00' + n * interval '1 minute' from generate_series(1, 500) as n`,
      );
      const walker = await walkerOf([job(name)], { keepActions: '1d' });
      const act = async () => {
        await walker.replica.call('PruningService', 'prune');
        expect(await query(`select from job_actions where job_name = 'long ago'`)).toEqual([]);
      };
      return { walker, act };
    },
  },
  {
    does: 'takes a schedule over from a version that has gone',
    ready: async (name) => {
      const former = await ground.cluster.start('former', { jobs: [job(name)], scheduler: { pollInterval: '500ms' } });
      const walker = await walkerOf([job(name, { cron: EVERY_SECOND })]);
      const act = async () => {
        await former.kill();
        await walker.replica.event('run.completed', { jobName: name });
      };
      return { walker, act };
    },
  },
  {
    does: 'follows a schedule that an operator has changed',
    ready: async (name) => {
      const walker = await walkerOf([job(name)]);
      const act = async () => {
        await ground.worker.call('SchedulerService', 'override', name, { cron: EVERY_SECOND }, by);
        await walker.replica.event('run.completed', { jobName: name });
      };
      return { walker, act };
    },
  },
  {
    does: 'stops a run that was cancelled',
    ready: async (name) => {
      const walker = await walkerOf([job(name, { steps: [{ untilAborted: true }] })]);
      const { fireTime } = await ground.worker.call<{ fireTime: Date }>('SchedulerService', 'runNow', name, by);
      await walker.replica.event('run.claimed', { jobName: name });
      const act = async () => {
        await ground.worker.call('SchedulerService', 'cancel', name, fireTime, by);
        await walker.replica.event('run.cancelled', { jobName: name });
      };
      return { walker, act };
    },
  },
  {
    does: 'sees that a job is overdue',
    ready: async (name) => {
      const walker = await walkerOf([job(name, { expectSuccessWithin: '1s' })]);
      return { walker, act: () => walker.replica.event('job.overdue', {}) };
    },
  },
  {
    does: 'looks for calls that were cut off',
    ready: async (name) => {
      const walker = await walkerOf([job(name)]);
      return { walker, act: () => walker.replica.call('CutOffCalls', 'look') };
    },
  },
  {
    does: 'stops, with a run in hand that it hands over',
    ready: async (name) => {
      const walker = await walkerOf([job(name, { steps: [{ untilAborted: true }] })], { shutdownTimeout: '500ms' });
      await ground.worker.call('SchedulerService', 'runNow', name, by);
      await walker.replica.event('run.claimed', { jobName: name });
      return { walker, act: () => walker.replica.stop() };
    },
  },
];

describe('a process that is frozen at any message while it', () => {
  it.each(DUTIES.map((duty) => [duty.does, duty] as const))(
    '%s holds no lock while it is waited for, and all other jobs and starts go on',
    async (does, { ready, keeps }) => {
      const outcome = await ground.freeze(does, () => ready(`job ${++named}`), {
        last: ({ replica }) => replica.kill(),
        allowed: (held) => held === keeps,
      });
      expect(outcome).toEqual({ held: [], others: 'went on' });
    },
    240_000,
  );
});
