import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { appendFileSync } from 'node:fs';
import { Bystanders } from './harness/bystanders.js';
import { Cluster } from './harness/cluster.js';
import { EVERY_SECOND } from './harness/crons.js';
import { FreezeWalk, type Look } from './harness/freeze-walk.js';
import type { Replica } from './harness/replica.js';
import { SteppedWire } from './harness/stepped-wire.js';
import type { RunKey } from '../../lib/domain/runs/run.js';
import type { ReplicaJob } from './replica/settings.js';

const OTHERS = ['other 1', 'other 2', 'other 3'];
const RARELY = '0 0 29 2 *';
const by = { by: 'an operator', reason: 'a test' };

const JOBS: readonly ReplicaJob[] = [
  ...OTHERS.map((name): ReplicaJob => ({ name, cron: EVERY_SECOND, overlap: 'forbid', steps: [] })),
  { name: 'target', cron: EVERY_SECOND, overlap: 'forbid', flag: 'of the target', steps: [] },
  { name: 'standing', cron: RARELY, overlap: 'allow', steps: [{ untilAborted: true }] },
  { name: 'retried', cron: RARELY, overlap: 'allow', backoff: '1h', steps: [{ fail: 'broken' }] },
  { name: 'failing', cron: RARELY, overlap: 'allow', maxAttempts: 1, steps: [{ fail: 'broken' }] },
  { name: 'calling', cron: RARELY, overlap: 'allow', steps: [{ call: 'a call', to: 'http://127.0.0.1:1', inDoubt: 'park', before: [{ fail: 'cut off' }] }], maxAttempts: 1 },
  { name: 'paged', cron: RARELY, overlap: 'allow', maxAttempts: 1, steps: [], pages: { 'page 1': [{ fail: 'broken' }], 'page 2': [{ fail: 'broken' }] } },
  { name: 'hourly', cron: '0 * * * *', overlap: 'forbid', steps: [] },
  { name: 'delivered', cron: EVERY_SECOND, trigger: 'external', overlap: 'allow', steps: [] },
];

/** An operator's call, made ready anew each time. */
interface Verb {
  readonly service: 'SchedulerService' | 'JobRegistry';
  readonly method: string;
  /** More about it, where one method is called in several ways. */
  readonly of?: string;
  /** @returns its arguments */
  readonly ready: () => Promise<readonly unknown[]>;
}

let cluster: Cluster;
let wire: SteppedWire;
/** It runs what the verbs ask for, and the other jobs. */
let worker: Replica;
/** It calls the verbs, and nothing else goes on in it. */
let caller: Replica;
let walk: FreezeWalk;
let bystanders: Bystanders;
let named = 0;

const scheduler = { pollInterval: '500ms', defaults: { lease: '20s' } } as const;
const plan = { jobs: JOBS, runTimeHandlers: ['a handler'], scheduler };

beforeAll(async () => {
  cluster = await Cluster.create();
  worker = await cluster.start('worker', plan);
  wire = await SteppedWire.to(cluster.database.url);
  caller = await cluster.start('caller', { ...plan, url: wire.url, scheduler: { ...scheduler, enabled: false } });
  walk = new FreezeWalk(cluster.database, wire, caller);
  bystanders = new Bystanders(cluster, OTHERS, plan);
}, 60_000);
afterAll(async () => {
  await cluster.end();
  wire.end();
});

const operate = <Result>(method: string, ...args: unknown[]): Promise<Result> => worker.call<Result>('SchedulerService', method, ...args);

/** A run of the job that was asked for. */
const runNow = (jobName: string): Promise<RunKey> => operate<RunKey>('runNow', jobName, by, { overlap: 'allow' });

async function aRun(jobName: string, event: 'run.claimed' | 'run.failed' | 'run.dead'): Promise<RunKey> {
  const { fireTime } = await runNow(jobName);
  await worker.event(event, { jobName, fireTime });
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
  await worker.call('JobRegistry', 'add', { name, cron: EVERY_SECOND, handler: 'a handler', overlap: 'forbid' });
  return name;
}

async function deadPages(): Promise<readonly unknown[]> {
  const run = await aRun('paged', 'run.dead');
  return [run, by];
}

const VERBS: readonly Verb[] = [
  { service: 'SchedulerService', method: 'pause', ready: async () => (await operate('resume', 'target', by), ['target', by]) },
  { service: 'SchedulerService', method: 'resume', ready: async () => (await operate('pause', 'target', by), ['target', by]) },
  { service: 'SchedulerService', method: 'disable', ready: async () => (await operate('enable', 'target', by), ['target', by]) },
  { service: 'SchedulerService', method: 'enable', ready: async () => (await operate('disable', 'target', by), ['target', by]) },
  { service: 'SchedulerService', method: 'override', ready: async () => ['target', { timeZone: ++named % 2 ? 'Europe/Berlin' : 'UTC' }, by] },
  { service: 'SchedulerService', method: 'clearOverride', ready: async () => (await operate('override', 'target', { timeZone: 'Asia/Tokyo' }, by), ['target', by]) },
  { service: 'SchedulerService', method: 'skipNext', ready: async () => ['hourly', by, { count: 3 }] },
  {
    service: 'SchedulerService',
    method: 'unskip',
    ready: async () => ['hourly', (await operate<Date[]>('skipNext', 'hourly', by, { count: 1 }))[0], by],
  },
  { service: 'SchedulerService', method: 'setFlag', ready: async () => ['of the target', true, by] },
  { service: 'SchedulerService', method: 'runNow', ready: async () => ['target', by, { overlap: 'queue' }] },
  { service: 'SchedulerService', method: 'deliver', ready: async () => ['delivered', { by: 'a clock' }] },
  { service: 'SchedulerService', method: 'cancel', of: 'a run that goes on', ready: async () => [...Object.values(await aRun('standing', 'run.claimed')), by] },
  { service: 'SchedulerService', method: 'cancel', of: 'a run that waits', ready: async () => [...Object.values(await aRun('retried', 'run.failed')), by] },
  { service: 'SchedulerService', method: 'replay', ready: async () => [...Object.values(await aRun('failing', 'run.dead')), by] },
  { service: 'SchedulerService', method: 'replayAll', ready: async () => (await aRun('failing', 'run.dead'), [{ jobName: 'failing' }, by]) },
  { service: 'SchedulerService', method: 'discard', ready: async () => [...Object.values(await aRun('failing', 'run.dead')), by] },
  { service: 'SchedulerService', method: 'discardAll', ready: async () => (await aRun('failing', 'run.dead'), [{ jobName: 'failing' }, by]) },
  { service: 'SchedulerService', method: 'resolveInDoubt', ready: async () => [await aRun('calling', 'run.dead'), 'done', by] },
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
  { service: 'JobRegistry', method: 'add', ready: async () => [{ name: `made at run time ${++named}`, cron: EVERY_SECOND, handler: 'a handler' }] },
  { service: 'JobRegistry', method: 'update', ready: async () => [await aJob(), { cron: '*/2 * * * * *' }] },
  { service: 'JobRegistry', method: 'remove', ready: async () => [await aJob()] },
];

describe('a process that is frozen at any message of an operator’s verb', () => {
  it.each(VERBS.map((verb) => [`${verb.service}.${verb.method}${verb.of ? ` of ${verb.of}` : ''}`, verb] as const))(
    '%s: it holds no lock while it is waited for, and all other jobs and starts go on',
    async (title, { service, method, ready }) => {
      const call = async (args: readonly unknown[]) => caller.call(service, method, ...args);
      const args = await ready();
      const looks = await walk.lookAtEach(() => call(args));
      report(title, looks);
      expect(looks.length).toBeGreaterThan(0);

      const again = await ready();
      const worst = looks.reduce((most, look) => (look.locks > most.locks ? look : most));
      const others = await walk.standAt((_, message) => message === worst.message, () => call(again), () => bystanders.goOn(wire.pids));
      report(`${title}: others`, [], others);
      expect({ held: heldIn(looks), others }).toEqual({ held: [], others: 'went on' });
    },
    120_000,
  );
});

function heldIn(looks: readonly Look[]): string[] {
  return looks.filter(({ held }) => held.length > 0).map(({ message, text, held }) => `at message ${message} of ${looks.length} (${text}): ${held.join('; ')}`);
}

/** A table of all of it, for people, where FREEZE_REPORT says. */
function report(what: string, looks: readonly Look[], note = ''): void {
  const file = process.env['FREEZE_REPORT'];
  if (!file) return;
  const lines = looks.map(({ message, text, held }) => `    ${message}. ${text.slice(0, 70)} -> ${held.join('; ') || '-'}`);
  appendFileSync(file, [`${what}: ${note || `${looks.length} messages, locks held at ${heldIn(looks).length}`}`, ...lines].join('\n') + '\n');
}
