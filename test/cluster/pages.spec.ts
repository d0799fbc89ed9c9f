import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Receiver } from '../support/receiver.js';
import { Cluster } from './harness/cluster.js';
import { everyTenSeconds } from './harness/crons.js';
import { eventually } from './harness/eventually.js';
import type { Replica } from './harness/replica.js';
import type { Attempt } from './replica/messages.js';
import type { ReplicaJob, Step } from './replica/settings.js';

let cluster: Cluster;
let receiver: Receiver;
let to: string;
beforeEach(async () => {
  cluster = await Cluster.create();
  receiver = new Receiver();
  to = await receiver.listen();
});
afterEach(async () => {
  await cluster.end();
  await receiver.close();
});

const BULK = Array.from({ length: 300 }, (_, index) => String(index));

/** What each page does, with a step that stands somewhere in it; by the place where its worker is cut. */
const PAGES: Record<string, (here: Step[]) => Step[]> = {
  'before the effect': (here) => [...here, { receipt: 'e1' }],
  'inside the effect': (here) => [{ receipt: 'e2', inside: [{ effect: 'e2' }, ...here] }],
  'after the effect': (here) => [{ receipt: 'e3' }, ...here, { receipt: 'e4' }],
  'before the call': (here) => [{ call: 'c1', to, inDoubt: 'resend', before: here }],
  'after the call': (here) => [{ call: 'c2', to, inDoubt: 'resend', after: here }],
  'after the parked call': (here) => [{ call: 'c3', to, inDoubt: 'park', after: here }],
  'inside a batch': (here) => [{ bulk: BULK.length, ...(here.length > 0 && { gateFrom: 200 }) }],
  'before its end': () => [{ receipt: 'e5' }],
  'after its end': () => [{ receipt: 'e6' }],
};
const EFFECTS = [...BULK, 'e1', 'e2', 'e3', 'e4', 'e5', 'e6'].sort();
const ENDS = { 'before its end': 'before', 'after its end': 'after' } as const;

const gateOf = (page: string) => (page === 'inside a batch' ? 'bulk' : page);
const jobOf = (cron: string, isCut: boolean): ReplicaJob => ({
  name: 'statements',
  cron,
  overlap: 'forbid',
  maxAttempts: 20,
  steps: [],
  pages: Object.fromEntries(
    Object.entries(PAGES).map(([page, steps]) => [page, steps(isCut && !(page in ENDS) ? [{ gate: page }] : [])]),
  ),
  ...(isCut && { pageEnds: ENDS }),
});

/** A victim whose pages all stand at their places, and an heir that has not begun. */
async function stand(): Promise<{ victim: Replica; heir: Replica; run: Attempt }> {
  const cron = await everyTenSeconds(cluster.ledger);
  const victim = await cluster.start('victim', { jobs: [jobOf(cron, true)] });
  const [run] = await Promise.all(
    Object.keys(PAGES).map((page) => victim.atGate(gateOf(page), { jobName: 'statements' })),
  );
  await victim.event('run.fannedOut', { jobName: 'statements', fireTime: run!.fireTime });
  return { victim, heir: await cluster.start('heir', { jobs: [jobOf(cron, false)] }), run: run! };
}

const pages = ({ fireTime }: Attempt) =>
  cluster.database.query<{ page: string; status: string; attempt: number }>(
    'select page, status, attempt from job_pages where fire_time = $1 order by page',
    [fireTime],
  );

async function done(run: Attempt): Promise<void> {
  const status = async () => (await cluster.ledger.run(run)).status;
  await eventually('the occurrence to be done', async () => (await status()) === 'done', {
    withinMs: 60_000,
    seen: () => pages(run),
  });
}

/** Each effect is there once, whoever has written it, and each call was made under one key. */
async function count(run: Attempt): Promise<void> {
  const effects = await cluster.database.query<{ entity: string }>('select entity from effects where fire_time = $1', [
    run.fireTime,
  ]);
  expect(effects.map(({ entity }) => entity).sort()).toEqual(EFFECTS);
  const found = await pages(run);
  expect(found.map(({ page, status, attempt }) => [page, status, attempt > 1])).toEqual(
    Object.keys(PAGES)
      .sort()
      .map((page) => [page, 'done', page !== 'after its end']),
  );
  const calls = await cluster.database.query<{ entity: string; key: string; state: string }>(
    'select entity, idempotency_key as key, state from receipts where fire_time = $1 and opened_at is not null order by entity',
    [run.fireTime],
  );
  expect(calls.map(({ entity }) => entity)).toEqual(['c1', 'c2', 'c3']);
  const taken = Object.fromEntries(
    calls.map(({ entity, key }) => [entity, receiver.taken.filter((one) => one.key === key).length]),
  );
  expect(taken['c2']).toBe(2);
  expect(taken['c3']).toBe(1);
  expect(calls.filter(({ entity, state }) => state !== 'done' && entity !== 'c3')).toEqual([]);
}

describe('a worker of pages', () => {
  it('G3 G4 that is killed at any boundary: its pages are worked by another, and each effect is there once', async () => {
    const { victim, run } = await stand();
    await victim.kill();
    await done(run);
    await count(run);
    expect(
      await cluster.database.query(`select state from receipts where fire_time = $1 and entity = 'c3'`, [run.fireTime]),
    ).toEqual([{ state: 'in_doubt' }]);
  });

  it('G3 G4 that is frozen until its pages are another’s changes nothing when it thaws, but for the answer that it alone knows', async () => {
    const { victim, heir, run } = await stand();
    victim.freeze();
    await done(run);
    const before = await cluster.database.query('select * from job_pages where fire_time = $1 order by page', [
      run.fireTime,
    ]);
    victim.thaw();
    for (const page of Object.keys(PAGES)) victim.open(gateOf(page), run);
    const others = Object.keys(PAGES).length - 1;
    await eventually(
      'the pages to be lost',
      async () => victim.heard('page.lost', { fireTime: run.fireTime }).length === others,
      { withinMs: 60_000, seen: async () => victim.heard('page.lost') },
    );
    await count(run);
    expect(
      await cluster.database.query('select * from job_pages where fire_time = $1 order by page', [run.fireTime]),
    ).toEqual(before);
    expect((await cluster.ledger.run(run)).status).toBe('done');
    expect(heir.heard('page.lost', { fireTime: run.fireTime })).toEqual([]);
    // Parked by the heir, and then answered: the victim’s own call.
    const parked = () =>
      cluster.database.query<{ state: string }>(`select state from receipts where fire_time = $1 and entity = 'c3'`, [
        run.fireTime,
      ]);
    await eventually('the answer to be kept', async () => (await parked())[0]!.state === 'done', {
      withinMs: 30_000,
      seen: parked,
    });
  });
});
