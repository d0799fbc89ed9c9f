import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { Failures } from '../../lib/runs/heartbeat/heartbeat.messages.js';
import type { FromThread } from '../../lib/runs/heartbeat/heartbeat.messages.js';
import { LivenessLock } from '../../lib/runs/heartbeat/liveness-lock.js';
import { LivenessProof } from '../../lib/runs/liveness-proof.js';
import { monotonicNow } from '../../lib/database/clock.js';
import { announceLifeline, holdLifeline } from '../../lib/runs/heartbeat/liveness-lock.js';
import { eventually } from '../cluster/harness/eventually.js';
import { Renumbering } from '../support/renumbering.js';
import { openStores, type Stores } from '../support/stores.js';
import { Wire } from '../support/wire.js';

const RUN = { id: 'one', attempt: 1 };

let stores: Stores;
let wire: Wire;
let told: FromThread[];
let proof: LivenessProof;
let lifelines: LivenessLock[];

beforeAll(async () => {
  stores = await openStores();
});
afterAll(() => stores.close());
beforeEach(async () => {
  await stores.test.query('delete from job_instances');
  await stores.test.query(
    `insert into job_instances (id, jobs, handlers, alive_until) values ('me', '{}', '[]', now())`,
  );
  wire = await Wire.to(stores.test.url);
  told = [];
  lifelines = [];
});
afterEach(async () => {
  await Promise.all(lifelines.map((lifeline) => lifeline.stop()));
  wire.end();
});

function aLifeline(url = wire.url): LivenessLock {
  proof = new LivenessProof();
  proof.require();
  const tell = (message: FromThread) => told.push(message);
  const lifeline = new LivenessLock(
    { connectionString: url, connectionTimeoutMillis: 5_000 },
    stores.database.tables,
    'me',
    proof,
    tell,
    new Failures(tell),
  );
  lifelines.push(lifeline);
  return lifeline;
}

const announced = async () =>
  (await stores.test.query<{ lifeline: string | null }>(`select lifeline from job_instances where id = 'me'`))[0]!
    .lifeline;
const isHeld = async (key: string) =>
  !(
    await stores.test.query<{ free: boolean }>('select pg_try_advisory_xact_lock_shared($1::bigint) as free', [key])
  )[0]!.free;
const sessions = () =>
  stores.test.query<{ pid: number; query: string; since: string }>(
    `select pid, query, state_change::text as since from pg_stat_activity
   where datname = current_database() and application_name = 'nestjs-distributed-cron lifeline'`,
  );
describe('a lifeline', () => {
  it('is a lock that its session holds, and that stands in the instance’s row', async () => {
    const lifeline = aLifeline();
    expect(proof.mayClaim).toBe(false);
    await lifeline.connect();
    expect(proof.mayClaim).toBe(true);
    const key = (await announced())!;
    expect(await isHeld(key)).toBe(true);
    await lifeline.stop();
    await eventually('it to be let go', async () => !(await isHeld(key)));
  });

  it('asks the database nothing while no run is in flight', async () => {
    const lifeline = aLifeline();
    await lifeline.connect();
    const [before] = await sessions();
    for (let pass = 0; pass < 3; pass++) expect(await lifeline.prove()).toBeGreaterThan(1e6);
    expect(await sessions()).toEqual([before]);
  });

  it('is proved while a run is in flight, and not any more when none is', async () => {
    const lifeline = aLifeline();
    await lifeline.connect();
    lifeline.watch(RUN);
    let claimedAt = monotonicNow();
    await eventually('proofs to go on', async () => {
      // A machine that stood still.
      if (proof.deadlineOf(claimedAt) === -Infinity) claimedAt = monotonicNow();
      return proof.deadlineOf(claimedAt) > claimedAt + 3_000;
    });
    lifeline.forget(RUN);
    await eventually('the proofs to end', async () => (await lifeline.prove()) > 1e6);
  });

  it('is announced again to a row that was made anew, when the next run begins', async () => {
    const lifeline = aLifeline();
    await lifeline.connect();
    const key = await announced();
    await lifeline.prove();
    await stores.test.query('update job_instances set lifeline = null');
    lifeline.watch(RUN);
    expect(await eventually('it to be there again', announced)).toBe(key);
  });

  it('G3: what a former session still had to say comes too late, or others would take over from one that lives', async () => {
    const { tables } = stores.database;
    const [former, later] = [new pg.Client(wire.url), new pg.Client(wire.url)];
    await Promise.all([former.connect(), later.connect()]);
    try {
      const old = await holdLifeline(former, 5_000);
      await sleep(2);
      const key = await holdLifeline(later, 5_000);
      await announceLifeline(later, tables, 'me', key, 5_000);
      // It waited for the row, and nobody waited for its answer any more.
      await announceLifeline(former, tables, 'me', old, 5_000);
      expect(await announced()).toBe(key);
      await announceLifeline(later, tables, 'me', null, 5_000);
      expect(await announced()).toBeNull();
    } finally {
      await Promise.all([former.end(), later.end()]);
    }
  });

  it('that the server has ended is followed by another, in time for the runs in flight', async () => {
    const lifeline = aLifeline();
    await lifeline.connect();
    lifeline.watch(RUN);
    let kept = false;
    // A machine that stands still meanwhile loses them, as it should.
    for (let time = 0; time < 5 && !kept; time++) {
      const key = (await announced())!;
      const claimedAt = monotonicNow();
      await stores.test.query('select pg_terminate_backend(pid) from pg_stat_activity where pid = $1', [
        (await sessions())[0]!.pid,
      ]);
      const next = await eventually('another lifeline', async () => (await announced()) !== key && (await announced()));
      expect(await isHeld(next)).toBe(true);
      await eventually(
        'it to be proved',
        async () => proof.mayClaim && proof.deadlineOf(monotonicNow()) > monotonicNow(),
      );
      kept = proof.deadlineOf(claimedAt) !== -Infinity;
    }
    expect(kept).toBe(true);
  });

  it('is made again without a run in flight, or nothing could be claimed', async () => {
    const lifeline = aLifeline();
    await lifeline.connect();
    const key = await announced();
    wire.cut();
    await eventually('it to be seen', async () => !proof.mayClaim);
    wire.mend();
    await eventually('another', async () => proof.mayClaim && (await announced()) !== key);
  });

  it('that does not answer is not waited for: a new connection proves the same', async () => {
    const lifeline = aLifeline();
    await lifeline.connect();
    const key = await announced();
    lifeline.watch(RUN);
    expect(wire.silenceConnections('lifeline')).toBe(1);
    await eventually('another lifeline', async () => (await announced()) !== key);
    await eventually('it to work again', async () => told.at(-1)?.type === 'recovered');
    expect(told[0]).toMatchObject({ type: 'failed', trouble: { kind: 'unreachable' } });
  });

  it('that can’t be had proves nothing, and what was claimed then is lost, for good', async () => {
    const lifeline = aLifeline();
    await lifeline.connect();
    const claimedAt = monotonicNow();
    lifeline.watch(RUN);
    wire.cut();
    await eventually('it to be over', async () => proof.deadlineOf(claimedAt) < monotonicNow());
    expect(proof.mayClaim).toBe(false);
    wire.mend();
    await eventually('it to be back', async () => proof.mayClaim);
    expect(proof.deadlineOf(claimedAt)).toBe(-Infinity);
    expect(proof.deadlineOf(monotonicNow())).toBeGreaterThan(monotonicNow());
  });
});

describe('behind a pooler', () => {
  it('there is none: it says so once, keeps no connection, and leaves the instance to its leases', async () => {
    const pooler = await Renumbering.to(stores.test.url);
    try {
      const lifeline = aLifeline(pooler.url);
      await stores.test.query(`update job_instances set lifeline = 7`);
      const claimedAt = monotonicNow();
      await lifeline.connect();
      lifeline.watch(RUN);
      expect(await lifeline.prove()).toBeGreaterThan(1e6);
      expect(told).toEqual([{ type: 'no lifeline' }]);
      expect(await announced()).toBeNull();
      expect(proof.mayClaim).toBe(true);
      expect(proof.deadlineOf(claimedAt)).toBeGreaterThan(claimedAt + 1e9);
      await eventually('the connection to end', async () => (await sessions()).length === 0);
    } finally {
      pooler.end();
    }
  });
});
