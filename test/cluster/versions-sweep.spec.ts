import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { setTimeout as pause } from 'node:timers/promises';
import { fireTimesBetween } from '../../lib/cron/schedule.js';
import { Cluster, type ReplicaPlan } from './harness/cluster.js';
import { eventually } from './harness/eventually.js';
import { randomFrom } from './harness/random.js';
import type { Replica } from './harness/replica.js';

/** For a long run: `FUZZ_ROUNDS=20 FUZZ_SEED=100`. */
const ROUNDS = Number(process.env.FUZZ_ROUNDS ?? 1);
const SEED = Number(process.env.FUZZ_SEED ?? 1);
const STEPS = Number(process.env.FUZZ_STEPS ?? 9);

const job = (cron: string, name = 'job', previously?: string[]): ReplicaPlan => ({
  jobs: [{ name, cron, missed: 'all', lateAfter: '3s', ...(previously && { previously }), steps: [{ effect: 'x' }] }],
});
const MODES: Record<string, ReplicaPlan[]> = {
  expressions: [job('*/2 * * * * *'), job('1-59/2 * * * * *'), job('*/3 * * * * *')],
  /** The event loop is blocked for longer than the shortest presence lasts. */
  blocked: [
    job('*/2 * * * * *'),
    { jobs: [{ ...job('1-59/4 * * * * *').jobs[0]!, steps: [{ effect: 'x' }, { blockMs: 2_500 }] }] },
  ],
  names: [job('* * * * * *', 'a'), job('* * * * * *', 'b', ['a']), job('* * * * * *', 'c', ['b', 'a'])],
};

/**
 * Replicas of several versions start, stop, are killed, frozen, thawed and cut off the database in random order. What
 * is judged is in the database: every change of schedules is noted by a trigger, with who was alive then.
 */
describe('a sweep of versions', () => {
  let cluster: Cluster;
  beforeEach(async () => {
    cluster = await Cluster.create();
  });
  afterEach(() => cluster.end());

  async function goesOn(): Promise<void> {
    const count = async () =>
      Number((await cluster.database.query<{ count: string }>('select count(*) from effects'))[0]!.count);
    const before = await count();
    await eventually('more effects', async () => (await count()) > before + 1, { withinMs: 60_000 });
  }

  const rounds = Array.from({ length: ROUNDS }, (_, index) => SEED + index).flatMap((seed) =>
    Object.keys(MODES).map((mode) => [mode, seed] as const),
  );
  it.each(rounds)('%s, seed %i', async (mode, seed) => {
    const random = randomFrom(seed * 7_919 + mode.length);
    const plans = MODES[mode]!;
    const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)]!;
    const live: { replica: Replica; frozen: boolean }[] = [];
    let started = 0;
    const log: string[] = [];
    const start = async (version: number) => {
      const poll = pick([200, 400, 900]);
      const name = `v${version}-${++started}`;
      log.push(`start ${name} poll ${poll}`);
      live.push({
        replica: await cluster.start(name, { ...plans[version]!, scheduler: { pollInterval: poll } }),
        frozen: false,
      });
    };
    await start(0);
    await cluster.database.query(`
      create table audit (at timestamptz default clock_timestamp(), name text, cron text, yields_to text, effective_from timestamptz, decided_until timestamptz, was text, was_yields text, still_declared boolean);
      insert into audit (name, cron, yields_to, effective_from, decided_until) select name, cron, yields_to, effective_from, decided_until from job_schedule;
      create function audit() returns trigger language plpgsql as $$ begin
        if tg_op = 'INSERT' then
          insert into audit (name, cron, yields_to, effective_from, decided_until) values (new.name, new.cron, new.yields_to, new.effective_from, new.decided_until);
        elsif (new.cron, new.yields_to, new.effective_from) is distinct from (old.cron, old.yields_to, old.effective_from) then
          insert into audit (name, cron, yields_to, effective_from, decided_until, was, was_yields, still_declared) values (new.name, new.cron, new.yields_to, new.effective_from, new.decided_until, old.cron, old.yields_to,
            case when new.yields_to is null then exists (select from job_instances where alive_until > clock_timestamp() and
              case when old.yields_to is null then jobs -> new.name = jsonb_build_array(old.cron, old.time_zone) else jobs ? old.yields_to end) end);
        end if; return null; end $$;
      create trigger audit after insert or update on job_schedule for each row execute function audit()`);
    for (let step = 0; step < STEPS; step++) {
      const dice = random();
      const awake = live.filter(({ frozen }) => !frozen);
      if (live.length < 2 || (dice < 0.3 && live.length < 5)) await start(Math.floor(random() * plans.length));
      else if (dice < 0.45) {
        const victim = pick(live);
        live.splice(live.indexOf(victim), 1);
        log.push(`kill ${victim.replica.name}`);
        await victim.replica.kill();
      } else if (dice < 0.6 && awake.length > 0) {
        const victim = pick(awake);
        live.splice(live.indexOf(victim), 1);
        log.push(`stop ${victim.replica.name}`);
        await Promise.race([
          victim.replica.stop(),
          pause(15_000, undefined, { ref: false }).then(() => victim.replica.kill()),
        ]);
      } else if (dice < 0.75 && awake.length > 0) {
        const victim = pick(awake);
        victim.frozen = true;
        log.push(`freeze ${victim.replica.name}`);
        victim.replica.freeze();
      } else if (dice < 0.9) {
        const frozen = live.find((one) => one.frozen);
        if (frozen) {
          frozen.frozen = false;
          log.push(`thaw ${frozen.replica.name}`);
          frozen.replica.thaw();
        }
      } else {
        log.push('cut');
        await cluster.database
          .query(
            `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() and random() < 0.7`,
          )
          .catch(() => undefined);
      }
      await pause(random() < 0.3 ? 3_000 * random() : 800 * random());
    }
    for (const one of live) if (one.frozen) one.replica.thaw();
    if (!live.some(({ replica }) => replica.isAlive)) await start(0);
    // It goes on: nobody is stuck.
    await goesOn();
    await goesOn();
    await Promise.all(live.map(({ replica }) => replica.stop()));
    const problems: string[] = [];
    if ((await cluster.ledger.deadlocks()) > 0) problems.push('deadlocks');
    const doubled = await cluster.database.query(
      `select fire_time, count(*), array_agg(job || ' ' || replica || ' ' || attempt) from effects group by fire_time, attempt having count(*) > 1`,
    );
    if (doubled.length > 0) problems.push(`doubled ${JSON.stringify(doubled)}`);
    const audit = await cluster.database.query<{
      at: Date;
      name: string;
      cron: string;
      yields_to: string | null;
      effective_from: Date;
      decided_until: Date;
      was: string | null;
      still_declared: boolean | null;
    }>('select * from audit order by at');
    const early = audit.filter(({ still_declared }) => still_declared);
    if (early.length > 0) problems.push(`taken over from a live one ${JSON.stringify(early)}`);
    const runs = await cluster.database.query<{
      job_name: string;
      fire_time: Date;
      gap_from: Date | null;
      status: string;
      reason: string | null;
      trigger: string;
    }>('select * from job_runs order by fire_time');
    const schedules = await cluster.database.query<{ name: string; decided_until: Date; yields_to: string | null }>(
      'select * from job_schedule',
    );
    const holders = schedules.filter(({ yields_to }) => yields_to === null);
    if (holders.length !== 1) problems.push(`holders ${JSON.stringify(schedules)}`);
    const end = holders[0]!.decided_until;
    const covered = (at: number) =>
      runs.filter(
        ({ fire_time, gap_from, reason }) =>
          !reason?.startsWith('decided as') && (gap_from ?? fire_time).getTime() <= at && at <= fire_time.getTime(),
      );
    if (mode === 'names') {
      for (const at of fireTimesBetween('* * * * * *', { timeZone: 'UTC', from: audit[0]!.effective_from, to: end })) {
        const decisions = covered(at.getTime());
        if (decisions.length !== 1)
          problems.push(`${at.toISOString()} has ${decisions.length} decisions ${JSON.stringify(decisions)}`);
      }
    } else {
      const spans = audit.map(({ cron, effective_from: from }, index) => ({
        cron,
        from,
        to: audit[index + 1]?.effective_from ?? end,
      }));
      for (const { cron, from, to } of spans) {
        for (const at of fireTimesBetween(cron, { timeZone: 'UTC', from, to }))
          if (covered(at.getTime()).length !== 1)
            problems.push(`${at.toISOString()} of ${cron} has ${covered(at.getTime()).length}`);
      }
      for (const { fire_time: at, gap_from } of runs) {
        if (gap_from) continue;
        const span = spans.find(({ from, to }) => from < at && at <= to) ?? spans.at(-1)!;
        if (fireTimesBetween(span.cron, { timeZone: 'UTC', from: new Date(at.getTime() - 1), to: at }).length === 0)
          problems.push(`${at.toISOString()} is not of ${span.cron}`);
      }
    }
    if (problems.length > 0)
      throw new Error([...problems.slice(0, 12), JSON.stringify(audit, null, 1), log.join('; ')].join('\n'));
    expect(problems).toEqual([]);
  });
});
