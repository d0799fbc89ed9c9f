import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { setTimeout as sleep } from 'node:timers/promises';
import type { FromThread, WatchedRun } from '../../lib/runs/heartbeat/heartbeat.messages.js';
import { LeaseKeeper } from '../../lib/runs/heartbeat/lease-keeper.js';
import { monotonicNow } from '../../lib/database/clock.js';
import { openStores, secondsAgo, type Stores } from '../support/stores.js';
import { Wire } from '../support/wire.js';

const FIRE_TIME = secondsAgo(1);
const LEASE_MS = 10_000;

let stores: Stores;
let wire: Wire;
let keeper: LeaseKeeper;
let told: FromThread[];

beforeAll(async () => {
  stores = await openStores();
});
afterAll(() => stores.close());
beforeEach(async () => {
  await stores.test.query('delete from job_runs');
  await stores.test.query(
    `insert into job_runs (job_name, fire_time, status, trigger, attempt, claimed_by, lease_until)
     values ('job', $1, 'running', 'schedule', 1, 'me', clock_timestamp() + interval '10 s')`,
    [FIRE_TIME],
  );
  wire = await Wire.to(stores.test.url);
  told = [];
  keeper = new LeaseKeeper(
    { connectionString: wire.url, connectionTimeoutMillis: 5_000 },
    stores.database.tables,
    (message) => told.push(message),
  );
});
afterEach(async () => {
  wire.end();
  await keeper.stop();
});

const aRun = (changes: Partial<WatchedRun> = {}): WatchedRun => ({
  id: 'one',
  jobName: 'job',
  fireTime: FIRE_TIME.toISOString(),
  attempt: 1,
  instanceId: 'me',
  leaseMs: LEASE_MS,
  renewEveryMs: 60_000,
  leaseDeadline: monotonicNow() + LEASE_MS,
  renewUntil: Infinity,
  ...changes,
});

async function toldOf(type: FromThread['type']): Promise<void> {
  while (!told.some((message) => message.type === type)) await sleep(5);
}

describe('a renewal', () => {
  it('is read committed, whatever the default: a run that ends in that moment would fail it for all others', async () => {
    const [{ database }] = (await stores.test.query('select current_database() as database')) as [{ database: string }];
    await stores.test.query(`alter database ${database} set default_transaction_isolation = 'serializable'`);
    await stores.test.query(`
      create table levels (level text);
      create function note_level() returns trigger language plpgsql as $$ begin insert into levels values (current_setting('transaction_isolation')); return new; end $$;
      create trigger note_level before update of lease_until on job_runs for each row execute function note_level()`);
    try {
      keeper.watch(aRun());
      await keeper.beat();
      expect(told).toMatchObject([{ type: 'renewed' }]);
      expect(await stores.test.query('select level from levels')).toEqual([{ level: 'read committed' }]);
    } finally {
      await stores.test.query('drop table levels; drop function note_level() cascade');
      await stores.test.query(`alter database ${database} reset default_transaction_isolation`);
    }
  });

  it('moves the deadline here from when it was sent', async () => {
    keeper.watch(aRun());
    const sentAfter = monotonicNow();
    await keeper.beat();
    expect(told).toEqual([{ type: 'renewed', renewals: [expect.objectContaining({ id: 'one', attempt: 1 })] }]);
    const { leaseDeadline } = (told[0] as Extract<FromThread, { type: 'renewed' }>).renewals[0]!;
    expect(leaseDeadline).toBeGreaterThanOrEqual(sentAfter + LEASE_MS);
    expect(leaseDeadline).toBeLessThanOrEqual(monotonicNow() + LEASE_MS);
  });

  it('that arrives after the lease has ended here does not revive it', async () => {
    await keeper.connect();
    keeper.watch(aRun({ leaseDeadline: monotonicNow() + 200 }));
    wire.silence();
    const beat = keeper.beat();
    await sleep(300);
    wire.mend();
    await beat;
    expect(told).toEqual([{ type: 'lost', id: 'one', attempt: 1, cause: 'expired' }]);
    await keeper.beat();
    expect(told).toHaveLength(1);
  });

  it('is not asked for any more when the run has taken its maxRunTime', async () => {
    keeper.watch(aRun({ renewUntil: monotonicNow() + 2_000, renewEveryMs: 20 }));
    await toldOf('renewed');
    while (keeper.kept.length > 0) await sleep(5);
    const renewals = told.length;
    const [before] = await stores.test.query('select lease_until from job_runs');
    await keeper.beat();
    await sleep(100);
    expect(await stores.test.query('select lease_until from job_runs')).toEqual([before]);
    expect(told).toHaveLength(renewals);
    expect(keeper.kept).toEqual([]);
  });

  it('of a run that another instance took is not one', async () => {
    keeper.watch(aRun());
    await stores.test.query(`update job_runs set attempt = 2, claimed_by = 'another'`);
    await keeper.beat();
    expect(told).toEqual([{ type: 'lost', id: 'one', attempt: 1, cause: 'taken over' }]);
  });
});

describe('a heartbeat that can’t connect', () => {
  it('has not recovered because there is nothing to renew', async () => {
    wire.cut();
    keeper.watch(aRun({ renewEveryMs: 10 }));
    await toldOf('failed');
    keeper.forget({ id: 'one', attempt: 1 });
    // Its next tries find no lease.
    await sleep(500);
    expect(told.map(({ type }) => type)).toEqual(['failed']);

    wire.mend();
    keeper.watch(aRun({ renewEveryMs: 10 }));
    await toldOf('renewed');
    expect(told.map(({ type }) => type).slice(0, 3)).toEqual(['failed', 'recovered', 'renewed']);
  });
});

describe('a note that the event loop stands still', () => {
  const blockedSince = async () =>
    (
      await stores.test.query<{ blocked_since: Date | null }>(`select blocked_since from job_instances where id = 'me'`)
    )[0]!.blocked_since;
  const written = async (condition: (since: Date | null) => boolean) => {
    for (let since = await blockedSince(); ; since = await blockedSince()) {
      if (condition(since)) return since;
      await sleep(5);
    }
  };
  beforeEach(async () => {
    await stores.test.query('delete from job_instances');
    await stores.test.query(
      `insert into job_instances (id, jobs, handlers, alive_until) values ('me', '{}', '[]', now()), ('another', '{}', '[]', now())`,
    );
  });

  it('is written for others to see, without a lease to renew, and taken back', async () => {
    const asked = Date.now();
    keeper.noteBlocked('me', monotonicNow() - 60_000);
    const since = (await written((at) => at !== null))!;
    expect(since.getTime()).toBeGreaterThan(asked - 70_000);
    expect(since.getTime()).toBeLessThan(asked);
    keeper.noteBlocked('me', null);
    await written((at) => at === null);
    expect(await stores.test.query('select from job_instances where blocked_since is not null')).toEqual([]);
  });

  it('that cannot be written is tried again, and holds up no lease', async () => {
    wire.cut();
    keeper.noteBlocked('me', monotonicNow());
    await sleep(100);
    wire.mend();
    keeper.watch(aRun({ renewEveryMs: 20 }));
    await toldOf('renewed');
    await written((at) => at !== null);
  });
});
