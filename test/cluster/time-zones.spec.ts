import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Cluster, POLL_MS, SLACK_MS } from './harness/cluster.js';
import { EVERY_SECOND, everyTenSeconds } from './harness/crons.js';

describe('replicas on hosts in different time zones, with a server in a third', () => {
  let cluster: Cluster;
  beforeEach(async () => {
    cluster = await Cluster.create();
    await cluster.database.query(
      `do $$ begin execute format('alter database %I set timezone = %L', current_database(), 'America/St_Johns'); end $$`,
    );
  });
  afterEach(() => cluster.end());

  it('B25 G10 see the same occurrences, and take over after the lease: not at once, and not hours later', async () => {
    const cron = await everyTenSeconds(cluster.ledger);
    const tick = { name: 'tick', cron: EVERY_SECOND, timeZone: 'Asia/Kolkata', steps: [{ effect: 'tick' }] };
    const long = { name: 'long', cron, timeZone: 'Europe/Berlin' };
    const west = await cluster.start('west', {
      jobs: [tick, { ...long, steps: [{ gate: 'running' }] }],
      env: { TZ: 'UTC', PGTZ: 'America/Adak' },
    });
    const at = await west.atGate('running');
    const east = await cluster.start('east', {
      jobs: [tick, { ...long, steps: [{ effect: 'long' }] }],
      env: { TZ: 'Pacific/Auckland' },
    });
    await Promise.any([
      west.event('run.completed', { jobName: 'tick' }),
      east.event('run.completed', { jobName: 'tick' }),
    ]);

    await west.kill();
    const abandoned = await cluster.ledger.run(at);
    await east.event('run.completed', { ...at, attempt: 2 });
    const run = await cluster.ledger.run(at);
    const lateBy = run.startedAt!.getTime() - abandoned.leaseUntil!.getTime();
    expect(lateBy).toBeGreaterThanOrEqual(0);
    expect(lateBy).toBeLessThan(POLL_MS + SLACK_MS);

    const lastTick = await east.event('run.completed', { jobName: 'tick' });
    const ticks = (await cluster.ledger.runs('tick')).filter(({ fireTime }) => fireTime <= lastTick.fireTime);
    const seconds = ticks.map(({ fireTime }) => fireTime.getTime());
    expect(seconds).toEqual(seconds.map((_, index) => seconds[0]! + index * 1_000));
    expect(ticks.every(({ startedAt, fireTime }) => startedAt! >= fireTime)).toBe(true);
  });

  it('B25 find no instant in the tables that is stored without its zone', async () => {
    await cluster.start('one', { jobs: [] });
    const columns = await cluster.database.query(
      `select table_name, column_name
       from   information_schema.columns
       where  table_schema = 'public'
       and    table_name in ('job_schedule', 'job_runs', 'receipts', 'job_instances')
       and    data_type in ('timestamp without time zone', 'date', 'time without time zone')`,
    );
    expect(columns).toEqual([]);
  });
});
