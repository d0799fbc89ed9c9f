import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { compileSchedule } from '../../lib/cron/schedule.js';
import { PruneStore, PruningService } from '../../lib/maintenance/pruning.service.js';
import { FlagStore, PauseStore } from '../../lib/operations/holds.service.js';
import { OverrideStore } from '../../lib/operations/schedule-edits.service.js';
import { ToldStore } from '../../lib/observe/alerts.service.js';
import { SchedulerEvents } from '../../lib/observe/scheduler-events.js';
import { openStores, secondsAgo, type Stores } from '../support/stores.js';

const DAY = 86_400_000;
const KEPT = { actionsMs: 400 * DAY, alertsMs: 30 * DAY };
const OPS = { by: 'ops', reason: 'because' };

let stores: Stores;
let prune: PruneStore;
beforeAll(async () => {
  stores = await openStores();
  prune = new PruneStore(stores.database);
});
afterAll(() => stores.close());
beforeEach(async () => {
  for (const table of ['job_runs', 'job_schedule', 'job_actions', 'job_backfills', 'job_alerts', 'job_flags'])
    await stores.test.query(`delete from ${table}`);
  for (const name of ['a', 'b', 'c'])
    await stores.test.query(
      `insert into job_schedule (name, cron, time_zone, policies) values ($1, '* * * * *', 'UTC', '{}')`,
      [name],
    );
});

/** Everything that is there was so long ago, and was done in the order in which it was. */
async function age(days: number): Promise<void> {
  await stores.test.query(`update job_actions set at = at - $1 * interval '1 day'`, [days]);
  await stores.test.query(
    `update job_schedule set paused_at = paused_at - $1 * interval '1 day', overridden_at = overridden_at - $1 * interval '1 day'`,
    [days],
  );
  await stores.test.query(`update job_flags set changed_at = changed_at - $1 * interval '1 day'`, [days]);
  await stores.test.query(
    `update job_backfills set created_at = created_at - $1 * interval '1 day', finished_at = finished_at - $1 * interval '1 day', cancelled_at = cancelled_at - $1 * interval '1 day'`,
    [days],
  );
  await stores.test.query(`update job_alerts set told_at = told_at - $1 * interval '1 day'`, [days]);
}
const actions = async () =>
  (
    await stores.test.query<{ action: string; job_name: string | null }>(
      'select action, job_name from job_actions order by id',
    )
  ).map(({ action, job_name }) => `${action} ${job_name}`);

describe('what operators did', () => {
  it('is forgotten when it is old enough, and not before', async () => {
    const pauses = new PauseStore(stores.database);
    await pauses.pause('a', null, OPS);
    await pauses.resume('a', OPS);
    await age(399);
    await prune.prune(KEPT, 100);
    expect(await actions()).toEqual(['pause a', 'resume a']);
    await age(2);
    await prune.prune(KEPT, 100);
    expect(await actions()).toEqual([]);
  });

  it('is kept as long as it holds: a pause, a disabled job, an override, a flag that is off, a skip of what is to come', async () => {
    const pauses = new PauseStore(stores.database);
    await pauses.pause('a', null, { by: 'ops', reason: 'the first' });
    await pauses.pause('a', null, OPS);
    await pauses.setEnabled('b', false, OPS);
    await pauses.setEnabled('b', true, OPS);
    await pauses.setEnabled('b', false, OPS);
    await new OverrideStore(stores.database, stores.partitions).override(
      'c',
      () => compileSchedule('0 5 * * *', 'UTC', 'c'),
      OPS,
    );
    const flags = new FlagStore(stores.database);
    await flags.set('off', false, OPS);
    await flags.set('on', false, OPS);
    await flags.set('on', true, OPS);
    await stores.test.query(
      `insert into job_actions (action, job_name, fire_time, actor) values ('skip', 'a', now() + interval '1 year', 'ops'), ('skip', 'a', now() - interval '1 year', 'ops')`,
    );
    await age(1_000);
    await prune.prune(KEPT, 100);
    expect(await actions()).toEqual(['pause a', 'disable b', 'override c', 'set-flag null', 'skip a']);
    expect(
      await stores.test.query(
        `select reason, details from job_actions where action in ('pause', 'set-flag') order by id`,
      ),
    ).toEqual([
      { reason: 'because', details: null },
      { reason: 'because', details: { flag: 'off', on: false } },
    ]);
  });

  it('goes in batches, the oldest first, on one replica at a time', async () => {
    await stores.test.query(
      `insert into job_actions (action, actor, at) select 'run-now', 'ops', now() - interval '500 days' from generate_series(1, 25)`,
    );
    expect(await prune.prune(KEPT, 10)).toBe(true);
    expect(await actions()).toHaveLength(15);
    const all = await Promise.all([prune.prune(KEPT, 10), prune.prune(KEPT, 10), prune.prune(KEPT, 10)]);
    expect(all).toContain(true);
    for (let more = true; more; ) more = await prune.prune(KEPT, 10);
    expect(await actions()).toEqual([]);
  });
});

describe('backfills', () => {
  const asked = {
    jobName: 'a',
    from: secondsAgo(100),
    to: secondsAgo(50),
    maxConcurrent: 1,
    beside: false,
    replay: false,
    total: 1,
    requestedBy: null,
    reason: null,
  };

  it('are forgotten when they have been over for long; one that is active, or has runs that have not ended, never', async () => {
    const [active, finished, cancelled, busy, fannedOut] = [
      await stores.backfills.create(asked),
      await stores.backfills.create(asked),
      await stores.backfills.create(asked),
      await stores.backfills.create(asked),
      await stores.backfills.create(asked),
    ];
    await stores.test.query(`update job_backfills set finished_at = now() where id in ($1, $2, $3)`, [
      finished,
      busy,
      fannedOut,
    ]);
    await stores.test.query(`update job_backfills set cancelled_at = now() where id = $1`, [cancelled]);
    await stores.test.query(
      `insert into job_runs (job_name, fire_time, status, trigger, backfill_id, next_attempt_at) values ('a', $1, 'queued', 'backfill', $2, now())`,
      [secondsAgo(60), busy],
    );
    await stores.test.query(
      `insert into job_runs (job_name, fire_time, status, trigger, backfill_id, attempt, claimed_by, lease_until) values ('a', $1, 'running', 'backfill', $2, 1, 'me', now())`,
      [secondsAgo(59), fannedOut],
    );
    await stores.test.query(
      `update job_runs set status = 'fanned_out', pages = 2, lease_until = null where fire_time = $1`,
      [secondsAgo(59)],
    );
    await age(399);
    await prune.prune(KEPT, 100);
    expect(await stores.backfills.list(10)).toHaveLength(5);
    await age(2);
    await prune.prune(KEPT, 100);
    expect((await stores.backfills.list(10)).map(({ id }) => id).sort()).toEqual([active, busy, fannedOut].sort());
  });
});

describe('what was told', () => {
  it('is forgotten after a month and the time after which it is told again', async () => {
    await new ToldStore(stores.database).first('x', { againAfterMs: DAY, unlessSince: null });
    const service = new PruningService(
      { keepActionsMs: 400 * DAY, alerts: { repeatAfterMs: DAY } } as never,
      prune,
      new SchedulerEvents(),
    );
    await age(30.5);
    expect(await service.prune()).toBe(6 * 3_600_000);
    expect(await stores.test.query('select key from job_alerts')).toEqual([{ key: 'x' }]);
    await age(1);
    await service.prune();
    expect(await stores.test.query('select key from job_alerts')).toEqual([]);
  });
});
