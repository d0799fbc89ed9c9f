import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { setTimeout as sleep } from 'node:timers/promises';
import { CronRun, DistributedCron, LeaseLostError, SchedulerEvents, type SchedulerEvent } from '../../lib/index.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { Wire } from '../support/wire.js';
import { closeApps, nextEvent, startApp } from './support/apps.js';

let database: TestDatabase;
let wire: Wire;

beforeEach(async () => {
  database = await createTestDatabase();
  wire = await Wire.to(database.url);
});
afterEach(async () => {
  wire.mend();
  await closeApps();
  wire.end();
  await database.drop();
});

const throughWire = () => ({ ...database, url: wire.url });
const oneRow = async (status: string) =>
  (
    await database.query<Record<string, unknown>>('select * from job_runs where status = $1 order by fire_time', [
      status,
    ])
  )[0];

describe('G12 outages pass', () => {
  it('a heartbeat whose connection hangs without a word gets a new one in time, and the run keeps its lease', async () => {
    @Injectable()
    class Jobs {
      @DistributedCron('* * * * * *', { name: 'long', lease: '3s', renewEvery: '300ms' })
      async long(run: CronRun) {
        await sleep(500);
        expect(wire.silenceConnections('heartbeat')).toBe(1);
        await sleep(5_000);
        run.signal.throwIfAborted();
      }
    }
    const app = await startApp(throughWire(), { providers: [Jobs] });
    const failed = nextEvent(app, 'heartbeat.failed');
    const recovered = nextEvent(app, 'heartbeat.recovered');
    const { attempt, durationMs } = await nextEvent(app, 'run.completed');
    await Promise.all([failed, recovered]);
    expect(attempt).toBe(1);
    expect(durationMs).toBeGreaterThan(5_000);
  });

  it('a lease that cannot be renewed aborts its handler before it ends, and late occurrences run when the database is back', async () => {
    const aborted: { reason: unknown; leaseUntil: Date; at: Date }[] = [];
    @Injectable()
    class Jobs {
      @DistributedCron('* * * * * *', { name: 'held', lease: '2s', renewEvery: '200ms' })
      async held(run: CronRun) {
        if (aborted.length > 0) return;
        await sleep(300);
        wire.cut();
        await new Promise<void>((resolve) => run.signal.addEventListener('abort', () => resolve()));
        const [clock] = await database.query<{ now: Date }>('select clock_timestamp() as now');
        aborted.push({ reason: run.signal.reason, leaseUntil: run.leaseUntil, at: clock!.now });
      }

      @DistributedCron('* * * * * *', { name: 'other', lateAfter: '2m' })
      other() {}
    }
    const app = await startApp(throughWire(), { providers: [Jobs] });
    const events: SchedulerEvent[] = [];
    app.get(SchedulerEvents).subscribe((event) => events.push(event));
    const lost = await nextEvent(app, 'lease.lost');
    expect(lost.cause).toBe('expired');
    await nextEvent(app, 'run.refused');
    expect(aborted[0]!.reason).toBeInstanceOf(LeaseLostError);
    // Long before the pool would give up on the database (15 s); how late a timer is on a busy machine proves nothing.
    expect(aborted[0]!.at.getTime() - aborted[0]!.leaseUntil.getTime()).toBeLessThan(3_000);

    wire.mend();
    await nextEvent(app, 'run.completed', (event) => event.jobName === 'held' && event.attempt === 2);
    expect(await oneRow('done')).toMatchObject({ job_name: expect.any(String) });
    // Every second of the outage has its run: late, not lost.
    await nextEvent(
      app,
      'run.completed',
      (event) => event.jobName === 'other' && event.fireTime.getTime() > Date.now() - 1_500,
    );
    const fireTimes = (
      await database.query<{ fire_time: Date }>(
        `select fire_time from job_runs where job_name = 'other' and status = 'done' order by fire_time`,
      )
    ).map(({ fire_time }) => fire_time.getTime());
    const seconds = (fireTimes.at(-1)! - fireTimes[0]!) / 1_000 + 1;
    expect(fireTimes).toHaveLength(seconds);
    expect(events.filter(({ type }) => type === 'loop.failed').length).toBeGreaterThan(0);
  });
});
