import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { EVERY_SECOND } from './harness/crons.js';
import { FreezeGround, RARELY, type Walker } from './harness/freeze-ground.js';
import { FreezeWalk } from './harness/freeze-walk.js';
import type { RunKey } from '../../lib/options/run.js';
import type { Replica } from './harness/replica.js';
import type { ReplicaJob } from './replica/settings.js';

const by = { by: 'an operator', reason: 'a test' };

/** They are called in a process whose scheduler is not enabled, so that all it sends is theirs. */
const JOBS: readonly ReplicaJob[] = [
  { name: 'target', cron: EVERY_SECOND, overlap: 'forbid', flag: 'of the target', steps: [] },
  { name: 'standing', cron: RARELY, overlap: 'allow', steps: [{ untilAborted: true }] },
  { name: 'retried', cron: RARELY, overlap: 'allow', backoff: '1h', steps: [{ fail: 'broken' }] },
  { name: 'failing', cron: RARELY, overlap: 'allow', maxAttempts: 1, steps: [{ fail: 'broken' }] },
  {
    name: 'calling',
    cron: RARELY,
    overlap: 'allow',
    steps: [{ call: 'a call', to: 'http://127.0.0.1:1', inDoubt: 'park', before: [{ fail: 'cut off' }] }],
    maxAttempts: 1,
  },
  {
    name: 'paged',
    cron: RARELY,
    overlap: 'allow',
    maxAttempts: 1,
    steps: [],
    pages: { 'page 1': [{ fail: 'broken' }], 'page 2': [{ fail: 'broken' }] },
  },
  { name: 'hourly', cron: '0 * * * *', overlap: 'forbid', steps: [] },
  { name: 'delivered', cron: EVERY_SECOND, trigger: 'external', overlap: 'allow', steps: [] },
];

/** An operator's call. */
interface Verb {
  readonly service: 'SchedulerService' | 'JobRegistry';
  readonly method: string;
  /** More about it, where one method is called in several ways. */
  readonly of?: string;
  /** Makes ready what it is called for, anew each time. @returns its arguments */
  readonly ready: () => Promise<readonly unknown[]>;
}

let ground: FreezeGround;
let caller: Walker;
let named = 0;
/** What is skipped already is named again, and not written. */
let skipped = 0;

beforeAll(async () => {
  const plan = { jobs: JOBS, runTimeHandlers: ['a handler'] };
  ground = await FreezeGround.make({ worker: JOBS, runTimeHandlers: plan.runTimeHandlers });
  caller = await ground.start('caller', { ...plan, scheduler: { enabled: false } });
});
afterAll(() => ground.end());

const operate = <Result>(method: string, ...args: unknown[]): Promise<Result> =>
  ground.worker.call<Result>('SchedulerService', method, ...args);

/** A run of the job that was asked for. */
const runNow = (jobName: string): Promise<RunKey> => operate<RunKey>('runNow', jobName, by, { overlap: 'allow' });

async function aRun(jobName: string, event: 'run.claimed' | 'run.failed' | 'run.dead'): Promise<RunKey> {
  const { fireTime } = await runNow(jobName);
  await ground.worker.event(event, { jobName, fireTime });
  return { jobName, fireTime };
}

let hoursAgo = 2;
/** A range of hours that no other test has had. */
function pastHours(count: number): { from: Date; to: Date } {
  const hour = 3_600_000;
  hoursAgo += count;
  const from = Math.floor(Date.now() / hour) * hour - hoursAgo * hour;
  return { from: new Date(from), to: new Date(from + (count - 1) * hour) };
}

async function aJob(): Promise<string> {
  const name = `made at run time ${++named}`;
  await ground.worker.call('JobRegistry', 'add', { name, cron: EVERY_SECOND, handler: 'a handler', overlap: 'forbid' });
  return name;
}

async function deadPages(): Promise<readonly unknown[]> {
  const run = await aRun('paged', 'run.dead');
  return [run, by];
}

const VERBS: readonly Verb[] = [
  {
    service: 'SchedulerService',
    method: 'pause',
    ready: async () => (await operate('resume', 'target', by), ['target', by]),
  },
  {
    service: 'SchedulerService',
    method: 'resume',
    ready: async () => (await operate('pause', 'target', by), ['target', by]),
  },
  {
    service: 'SchedulerService',
    method: 'disable',
    ready: async () => (await operate('enable', 'target', by), ['target', by]),
  },
  {
    service: 'SchedulerService',
    method: 'enable',
    ready: async () => (await operate('disable', 'target', by), ['target', by]),
  },
  {
    service: 'SchedulerService',
    method: 'override',
    ready: async () => ['target', { timeZone: ++named % 2 ? 'Europe/Berlin' : 'UTC' }, by],
  },
  {
    service: 'SchedulerService',
    method: 'clearOverride',
    ready: async () => (await operate('override', 'target', { timeZone: 'Asia/Tokyo' }, by), ['target', by]),
  },
  { service: 'SchedulerService', method: 'skipNext', ready: async () => ['hourly', by, { count: (skipped += 3) }] },
  {
    service: 'SchedulerService',
    method: 'unskip',
    ready: async () => ['hourly', (await operate<Date[]>('skipNext', 'hourly', by, { count: 1 }))[0], by],
  },
  { service: 'SchedulerService', method: 'setFlag', ready: async () => ['of the target', true, by] },
  { service: 'SchedulerService', method: 'runNow', ready: async () => ['target', by, { overlap: 'queue' }] },
  { service: 'SchedulerService', method: 'deliver', ready: async () => ['delivered', { by: 'a clock' }] },
  {
    service: 'SchedulerService',
    method: 'cancel',
    of: 'a run that goes on',
    ready: async () => [...Object.values(await aRun('standing', 'run.claimed')), by],
  },
  {
    service: 'SchedulerService',
    method: 'cancel',
    of: 'a run that waits',
    ready: async () => [...Object.values(await aRun('retried', 'run.failed')), by],
  },
  {
    service: 'SchedulerService',
    method: 'replay',
    ready: async () => [...Object.values(await aRun('failing', 'run.dead')), by],
  },
  {
    service: 'SchedulerService',
    method: 'replayAll',
    ready: async () => (await aRun('failing', 'run.dead'), [{ jobName: 'failing' }, by]),
  },
  {
    service: 'SchedulerService',
    method: 'discard',
    ready: async () => [...Object.values(await aRun('failing', 'run.dead')), by],
  },
  {
    service: 'SchedulerService',
    method: 'discardAll',
    ready: async () => (await aRun('failing', 'run.dead'), [{ jobName: 'failing' }, by]),
  },
  {
    service: 'SchedulerService',
    method: 'resolveInDoubt',
    ready: async () => [await aRun('calling', 'run.dead'), 'done', by],
  },
  { service: 'SchedulerService', method: 'replayPages', ready: deadPages },
  { service: 'SchedulerService', method: 'discardPages', ready: deadPages },
  {
    service: 'SchedulerService',
    method: 'backfill',
    ready: async () => {
      const { from, to } = pastHours(3);
      return ['hourly', from, to];
    },
  },
  {
    service: 'SchedulerService',
    method: 'cancelBackfill',
    ready: async () => {
      await operate('pause', 'hourly', by);
      const { from, to } = pastHours(3);
      const { id } = await operate<{ id: string }>('backfill', 'hourly', from, to);
      return [id, by];
    },
  },
  {
    service: 'JobRegistry',
    method: 'add',
    ready: async () => [{ name: `made at run time ${++named}`, cron: EVERY_SECOND, handler: 'a handler' }],
  },
  { service: 'JobRegistry', method: 'update', ready: async () => [await aJob(), { cron: '*/2 * * * * *' }] },
  { service: 'JobRegistry', method: 'remove', ready: async () => [await aJob()] },
];

describe('a process that is frozen at any message of an operator’s verb', () => {
  it.each(VERBS.map((verb) => [`${verb.service}.${verb.method}${verb.of ? ` of ${verb.of}` : ''}`, verb] as const))(
    '%s: it holds no lock while it is waited for, and all other jobs and starts go on',
    async (title, { service, method, ready }) => {
      const called = async () => {
        const args = await ready();
        return { walker: caller, act: () => caller.replica.call(service, method, ...args) };
      };
      expect(
        await ground.freeze(title, called, {
          last: async () => undefined,
          newcomer: JOBS.filter(({ name }) => name === 'target'),
        }),
      ).toEqual({ held: [], others: 'went on' });
    },
    240_000,
  );
});

describe('a replica on which runNow was just called', () => {
  it('has a handler that computes for 40 s: all other jobs and starts go on', async () => {
    const jobs: ReplicaJob[] = [
      { name: 'computing', cron: RARELY, steps: [{ gate: 'to compute' }, { blockMs: 40_000 }] },
      ...JOBS.filter(({ name }) => name === 'target'),
    ];
    let answers = 0;
    // Each is asked for when the one before has come: one that was on its way may be answered before the event loop
    // stands still.
    const countAnswers = async (replica: Replica) => {
      for (;;) {
        await replica.call('JobRegistry', 'names');
        answers++;
      }
    };
    const busy = async (pass: 'at each message' | 'at one message') => {
      const walker = await ground.start('busy', { jobs });
      const act = () => walker.replica.call('SchedulerService', 'runNow', 'target', by, { overlap: 'queue' });
      if (pass === 'at each message') return { walker, act };

      await operate('runNow', 'computing', by);
      const at = await walker.replica.atGate('to compute', { jobName: 'computing' });
      const computing = {
        freeze: () => {
          walker.replica.open('to compute', at);
          void countAnswers(walker.replica).catch(() => undefined);
        },
        thaw: () => void walker.replica.kill(),
      };
      return { walker: { ...walker, walk: new FreezeWalk(ground.cluster.database, walker.wire, computing) }, act };
    };

    const { others } = await ground.freeze('runNow, and a handler that computes', busy, {
      last: ({ replica }) => replica.kill(),
    });
    expect(answers).toBeLessThanOrEqual(1);
    expect(others).toBe('went on');
  }, 240_000);
});
