import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Receiver } from '../support/receiver.js';
import { FreezeGround, RARELY, type Walker } from './harness/freeze-ground.js';
import type { ReplicaJob, Step } from './replica/settings.js';

/** What an open transaction of the application's may hold: nobody but the next attempt of its own run waits for it. */
const OF_THE_APPLICATION = [
  'ShareLock advisory',
  'ExclusiveLock rows',
  'RowExclusiveLock effects',
  'RowExclusiveLock receipts',
  'AccessShareLock receipts',
  'RowShareLock receipts',
  'AccessShareLock job_runs',
  'RowShareLock job_runs',
  'AccessShareLock job_pages',
  'RowShareLock job_pages',
];

interface Form {
  readonly name: string;
  readonly steps: (to: string) => readonly Step[];
  readonly pages?: ReplicaJob['pages'];
  /** True: effects are written in a transaction that is open while the application is waited for. */
  readonly isTransaction?: true;
  /** True: the application's data source is tried before its first receipt. */
  readonly isProbed?: true;
}

const FORMS: readonly Form[] = [
  { name: 'once', steps: () => [{ receipt: 'e' }], isTransaction: true },
  {
    name: 'once in a data source of the application',
    steps: () => [{ receiptInOwn: 'e' }],
    isTransaction: true,
    isProbed: true,
  },
  { name: 'onceEach', steps: () => [{ each: 3 }], isTransaction: true },
  { name: 'onceBatch', steps: () => [{ bulk: 150 }], isTransaction: true },
  { name: 'onceExternal', steps: (to) => [{ call: 'e', to, inDoubt: 'park' }] },
  { name: 'run.transaction with a checkpoint', steps: () => [{ page: 'p' }], isTransaction: true },
  { name: 'run.transaction with the completion', steps: () => [{ finish: 'e' }], isTransaction: true },
  { name: 'run.checkpoint.save', steps: () => [{ save: 'here' }] },
  { name: 'run.complete', steps: () => [{ complete: true }] },
  {
    name: 'FanOutService.publish and the work of its pages',
    steps: () => [],
    pages: { 'page 1': [{ receipt: 'p1' }], 'page 2': [{ receipt: 'p2' }] },
    isTransaction: true,
  },
];

let ground: FreezeGround | undefined;
let receiver: Receiver;
let to: string;

const job = (form: Form, steps: readonly Step[]): ReplicaJob => ({
  name: form.name,
  cron: RARELY,
  maxAttempts: 1,
  steps,
  ...(form.pages && { pages: form.pages }),
});

/**
 * Its next occurrence, which takes the place of the one before, is decided by a replica that has nothing to do for it.
 */
const replacedJob = (form: Form, steps: readonly Step[]): ReplicaJob => ({
  ...job(form, steps),
  name: `${form.name}, replaced`,
  cron: '*/4 * * * * *',
  overlap: 'replace',
});

beforeAll(async () => {
  receiver = new Receiver();
  to = await receiver.listen();
  ground = await FreezeGround.make();
});
afterAll(async () => {
  await receiver.close();
  await ground?.end();
});

describe('a handler whose process is frozen at any message of', () => {
  it.each(FORMS.map((form) => [form.name, form] as const))(
    '%s holds nothing that another job, or the next occurrence of its own, waits for',
    async (name, form) => {
      const outcome = await ground!.freeze(
        name,
        (pass) => (pass === 'at one message' && !form.pages ? replaced(form) : asked(form)),
        {
          last: ({ replica }) => replica.kill(),
          // Pages are worked by whoever has their handler: by the walker alone.
          newcomer: form.pages ? [] : [replacedJob(form, [])],
          allowed: (held) =>
            (form.isTransaction === true && isOfTheApplication(held)) || (form.isProbed === true && isOfTheProbe(held)),
        },
      );
      expect(outcome).toEqual({ held: [], others: 'went on' });
    },
    240_000,
  );
});

const here = (form: Form): readonly Step[] => [{ gate: 'begin' }, ...form.steps(to)];

async function asked(form: Form) {
  const walker = await ground!.start('walker', { jobs: [job(form, here(form))] });
  await ground!.worker.call('SchedulerService', 'runNow', form.name, { by: 'a test' });
  return fromTheGate(walker, form.name);
}

async function replaced(form: Form) {
  const walker = await ground!.start('walker', { jobs: [replacedJob(form, here(form))] });
  const name = `${form.name}, replaced`;
  return { ...(await fromTheGate(walker, name)), decided: name };
}

async function fromTheGate(walker: Walker, jobName: string) {
  const at = await walker.replica.atGate('begin', { jobName });
  const ends = ['run.completed', 'run.cancelled', 'run.refused'] as const;
  const act = () => {
    walker.replica.open('begin', at);
    return Promise.race(ends.map((end) => walker.replica.event(end, at)));
  };
  return { walker, act };
}

/**
 * Whether that is the scheduler's own database is tried once, by a lock under a random key, which nobody else asks for.
 */
function isOfTheProbe(held: string): boolean {
  const [state, locks] = held.split(': ') as [string, string];
  return (
    state === 'idle in transaction' &&
    locks.split(', ').every((lock) => lock === 'ExclusiveLock advisory' || lock.startsWith('AccessShareLock pg_'))
  );
}

function isOfTheApplication(held: string): boolean {
  const [state, locks] = held.split(': ') as [string, string];
  return (
    state === 'idle in transaction' &&
    (locks === 'no lock' || locks.split(', ').every((lock) => OF_THE_APPLICATION.includes(lock)))
  );
}
