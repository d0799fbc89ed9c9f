import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { JobDefinition } from '../../lib/options/job-definition.js';
import { aJob } from '../support/job.js';
import { openStores, secondsAgo, type Stores } from '../support/stores.js';

let stores: Stores;
beforeAll(async () => {
  stores = await openStores();
});
afterAll(() => stores.close());
beforeEach(async () => {
  for (const table of ['job_runs', 'job_schedule', 'job_instances']) await stores.test.query(`delete from ${table}`);
});

const HOURLY = '0 * * * *';
const A = aJob('a', HOURLY);
const B = aJob('b', HOURLY, { previously: ['a'] });

const starts = (instanceId: string, jobs: JobDefinition[]) =>
  stores.schedules.declare(jobs, { instanceId, aliveMs: 60_000, jobs, handlers: [] });
const takeOver = (instanceId: string, jobs: JobDefinition[]) => stores.takeOvers.takeOver(jobs, instanceId);

/** Each job and the name it is decided under. */
async function names(): Promise<Record<string, string | null>> {
  const rows = await stores.test.query<{ name: string; yields_to: string | null }>(
    'select name, yields_to from job_schedule',
  );
  return Object.fromEntries(rows.map(({ name, yields_to }) => [name, yields_to]));
}

/** `a` was renamed to `b`, and nobody declares `a` any more. */
async function renamed(): Promise<void> {
  await starts('v1', [A]);
  await stores.instances.leave('v1');
  await starts('v2', [B]);
  await takeOver('v2', [B]);
  expect(await names()).toEqual({ a: 'b', b: null });
}

describe('a former name', () => {
  it('that a new job gets is a job of its own, without a past, beside the one that had it', async () => {
    await renamed();
    await stores.test.query('update job_schedule set decided_until = $1, effective_from = $1', [secondsAgo(7_200)]);
    await stores.test.query(`update job_schedule set paused_at = now(), enabled = false where name = 'a'`);
    const both = [A, aJob('b', HOURLY)];
    await starts('v3-1', both);
    await starts('v3-2', both);
    await stores.instances.leave('v2');
    await takeOver('v3-1', both);
    await takeOver('v3-2', both);
    expect(await names()).toEqual({ a: null, b: null });
    const [a] = await stores.test.query<{ decided_until: Date }>(
      `select decided_until, enabled, paused_at from job_schedule where name = 'a'`,
    );
    expect(a).toMatchObject({ enabled: true, paused_at: null });
    expect(a!.decided_until.getTime()).toBeGreaterThanOrEqual(secondsAgo(0).getTime());
  });

  it('is held by one of three versions at a time', async () => {
    const c = aJob('c', HOURLY, { previously: ['b', 'a'] });
    await starts('v1', [A]);
    await starts('v2', [B]);
    await starts('v3', [c]);
    await stores.instances.leave('v1');
    await takeOver('v2', [B]);
    await takeOver('v3', [c]);
    expect(Object.values(await names()).filter((name) => name === null)).toHaveLength(1);
    await stores.instances.leave('v2');
    await takeOver('v3', [c]);
    expect(await names()).toMatchObject({ c: null });
    expect(Object.values(await names()).filter((name) => name === null)).toHaveLength(1);
  });

  it('that itself still waits for an older one is waited for, too', async () => {
    await starts('v1', [A]);
    await starts('v2', [B]);
    await starts('v3', [aJob('c', HOURLY, { previously: ['b'] })]);
    expect(await names()).toEqual({ a: null, b: 'a', c: 'a' });
  });
});

describe('a job that H spreads by its name', () => {
  it('has other fire times under another name: what is past is recorded under the old one, and nothing of it is run', async () => {
    const [old, renamed] = [aJob('a', 'H * * * *'), aJob('b', 'H * * * *', { previously: ['a'] })];
    await starts('v1', [old]);
    await stores.test.query('update job_schedule set decided_until = $1, effective_from = $1', [secondsAgo(7_200)]);
    await stores.instances.leave('v1');
    await starts('v2', [renamed]);
    await takeOver('v2', [renamed]);
    const [b] = await stores.test.query<{ decided_until: Date }>(
      `select decided_until from job_schedule where name = 'b'`,
    );
    expect(b!.decided_until.getTime()).toBeGreaterThanOrEqual(secondsAgo(0).getTime());
    expect(await stores.test.query('select job_name, reason, gap_count from job_runs')).toEqual([
      { job_name: 'a', reason: 'superseded by an edit', gap_count: 2 },
    ]);
  });
});

describe('pauses in a rename', () => {
  const holds = async (name: string) =>
    (
      await stores.test.query<{
        enabled: boolean;
        disabled_at: Date | null;
        earlier_holds: { since: string; until: string }[];
      }>('select enabled, disabled_at, earlier_holds from job_schedule where name = $1', [name])
    )[0]!;

  it('are as long as they were: a job that was switched off before is off since then', async () => {
    await starts('v1', [A]);
    await stores.test.query(`update job_schedule set enabled = false`);
    await stores.test.query(`update job_schedule set disabled_at = $1`, [secondsAgo(3_600)]);
    await stores.instances.leave('v1');
    await starts('v2', [B]);
    await takeOver('v2', [B]);
    expect(await holds('b')).toMatchObject({ enabled: false, disabled_at: secondsAgo(3_600) });
  });

  it('that were over before a rollback are over after it', async () => {
    await starts('v1', [A]);
    await stores.test.query(`update job_schedule set paused_at = $1`, [secondsAgo(7_200)]);
    await stores.instances.leave('v1');
    await starts('v2', [B]);
    await takeOver('v2', [B]);
    await stores.test.query(`update job_schedule set paused_until = $1 where name = 'b'`, [secondsAgo(3_600)]);
    await stores.test.query(`update job_schedule set paused_at = null, paused_until = null where name = 'b'`);
    await stores.instances.leave('v2');
    await starts('v1-again', [A]);
    await takeOver('v1-again', [A]);
    const { earlier_holds: earlier } = await holds('a');
    expect(earlier).toHaveLength(1);
    expect(Date.parse(earlier[0]!.until)).toBe(secondsAgo(3_600).getTime());
  });

  const pauses = async (name: string) =>
    (
      await stores.test.query<{
        paused_at: Date | null;
        paused_until: Date | null;
        paused_by: string | null;
        earlier_holds: object[];
      }>('select paused_at, paused_until, paused_by, earlier_holds from job_schedule where name = $1', [name])
    )[0]!;
  const pause = (name: string, since: number, until: number | null, by: string) =>
    stores.test.query('update job_schedule set paused_at = $2, paused_until = $3, paused_by = $4 where name = $1', [
      name,
      secondsAgo(since),
      until === null ? null : secondsAgo(until),
      by,
    ]);

  /** `b` waits for `a`, both as the test makes them, and then takes its place. */
  async function takesOver(prepare: () => Promise<unknown>): Promise<void> {
    await starts('v1', [A]);
    await starts('v2', [B]);
    await prepare();
    await stores.instances.leave('v1');
    await takeOver('v2', [B]);
    expect(await names()).toEqual({ a: 'b', b: null });
  }

  it('put on the name that still waits hold when it does not wait any more', async () => {
    await takesOver(() => pause('b', 600, null, 'ops'));
    expect(await pauses('b')).toEqual({
      paused_at: secondsAgo(600),
      paused_until: null,
      paused_by: 'ops',
      earlier_holds: [],
    });
  });

  it('on both names are the one that lasts longer, and the other is kept as an earlier one', async () => {
    await takesOver(async () => {
      await pause('a', 900, -600, 'for a while');
      await pause('b', 600, -3_600, 'for longer');
    });
    expect(await pauses('b')).toMatchObject({
      paused_by: 'for longer',
      paused_until: secondsAgo(-3_600),
      earlier_holds: [{ reason: 'paused', by: 'for a while' }],
    });
  });

  it('that end sooner, or are over, give way to the one that holds', async () => {
    await takesOver(async () => {
      await pause('a', 900, null, 'holds');
      await pause('b', 600, -3_600, 'ends sooner');
    });
    expect(await pauses('b')).toMatchObject({
      paused_at: secondsAgo(900),
      paused_until: null,
      paused_by: 'holds',
      earlier_holds: [],
    });
  });

  it('that were over before the name waited no more are no pauses', async () => {
    await takesOver(() => pause('b', 600, 300, 'over'));
    expect(await pauses('b')).toMatchObject({ paused_at: null, paused_by: null });
  });

  it('also hold a name that was disabled while it waited, and go with the job: the name that waits from then on has none', async () => {
    await takesOver(async () => {
      await pause('a', 900, null, 'ops');
      await stores.test.query(`update job_schedule set enabled = false where name = 'b'`);
    });
    expect(await holds('b')).toMatchObject({ enabled: false, disabled_at: expect.any(Date) });
    expect(await pauses('b')).toMatchObject({ paused_by: 'ops' });
    expect({ ...(await holds('a')), ...(await pauses('a')) }).toMatchObject({
      enabled: true,
      disabled_at: null,
      paused_at: null,
      paused_by: null,
      earlier_holds: [],
    });
    await stores.test.query(
      `update job_schedule set enabled = true, paused_at = null, paused_by = null where name = 'b'`,
    );
    await stores.instances.leave('v2');
    await starts('v1-again', [A]);
    await takeOver('v1-again', [A]);
    expect({ ...(await holds('a')), ...(await pauses('a')) }).toMatchObject({ enabled: true, paused_at: null });
  });
});
