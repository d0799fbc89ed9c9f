import { compileSchedule } from '../cron/schedule.js';
import { queryOn } from '../database/query.js';
import { span, utc } from './tables.js';
import type { Scheduler } from './scheduler-context.js';

/** `wrong` needs a person; `look` may. */
export interface Finding {
  readonly state: 'good' | 'look' | 'wrong';
  readonly check: string;
  readonly finding: string;
}

/** An unnoticed skew beyond this makes logs of two machines hard to compare. */
const SKEW_MS = 1_000;

/** A lease that ran out is reaped within a poll; whoever should, does not. */
const STUCK_AFTER_MS = 60_000;

/** Replicas decide what is due within a second or so, and write up to where within a minute. */
const LATE_MS = 300_000;

/** Looks at what usually goes wrong. The tables were verified when the scheduler was opened. */
export async function checkUp(scheduler: Scheduler): Promise<Finding[]> {
  const { verbs, database } = scheduler;
  const query = queryOn(database.coordination);
  const { tables } = database;
  const findings: Finding[] = [];
  const judge = (check: string, state: Finding['state'], finding: string) => findings.push({ state, check, finding });

  judge('tables', 'good', `schema ${tables.schema} has what this release needs`);

  const sentAt = Date.now();
  const [server] = await query<{ now: Date; version: string; jit: string; commit: string; pid: number }>(
    `select clock_timestamp() as now, current_setting('server_version') as version, current_setting('jit') as jit,
            current_setting('synchronous_commit') as commit, pg_backend_pid() as pid`,
  );
  const skewMs = server!.now.getTime() - (sentAt + Date.now()) / 2;
  judge(
    'clock',
    Math.abs(skewMs) > SKEW_MS ? 'look' : 'good',
    `this machine is ${span(Math.abs(skewMs))} ${skewMs < 0 ? 'ahead of' : 'behind'} the database`,
  );
  judge('server', 'good', `PostgreSQL ${server!.version}, jit ${server!.jit} (the scheduler's functions turn it off)`);
  const durable = server!.commit !== 'off';
  judge(
    'synchronous_commit',
    durable ? 'good' : 'look',
    durable
      ? server!.commit
      : "off: a server's crash may lose what the application committed; the scheduler's own promises are committed with on",
  );

  const [month] = await query<{ missing: string[] }>(
    `select coalesce(array_agg(distinct partition_name), '{}') as missing
     from   ${tables.qualify('partitions_missing_1')}(array[
              to_char(date_trunc('month', now() at time zone 'utc'), 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
              to_char(date_trunc('month', now() at time zone 'utc') + interval '1 month', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')]::timestamptz[])`,
  );
  judge(
    'partitions',
    month!.missing.length > 0 ? 'look' : 'good',
    month!.missing.length > 0
      ? `missing, made by the next replica that starts: ${month!.missing.join(', ')}`
      : 'there for this month and the next',
  );

  const replicas = (await verbs.replicas()).filter(({ isAlive, jobs }) => isAlive && jobs > 0);
  judge(
    'replicas',
    replicas.length === 0 ? 'wrong' : 'good',
    replicas.length === 0 ? 'none is alive: nothing runs' : `${replicas.length} alive`,
  );
  for (const one of replicas.filter(({ blockedSince }) => blockedSince))
    judge('event loop', 'wrong', `${one.instanceId} stands still since ${utc(one.blockedSince)}`);
  const zoneData = [...new Set(replicas.map(({ tz }) => tz ?? 'unknown'))];
  judge(
    'time-zone data',
    zoneData.length > 1 ? 'look' : 'good',
    zoneData.length > 1
      ? `replicas have ${zoneData.join(', ')}: they may disagree about clock changes`
      : (zoneData[0] ?? process.versions.tz ?? 'unknown'),
  );

  const jobs = await verbs.inventory();
  for (const job of jobs) {
    const name = `job ${job.name}`;
    if (job.state === 'unregistered') judge(name, 'wrong', 'no replica that is alive declares it: it does not run');
    else if (job.state === 'active' && !job.enabled) judge(name, 'look', 'disabled');
    else if (job.paused && job.state === 'active')
      judge(
        name,
        'look',
        `paused since ${utc(job.paused.since)}${job.paused.by ? ` by ${job.paused.by}` : ''}${job.paused.reason ? `: ${job.paused.reason}` : ''}`,
      );
    if (job.flag && !job.flag.on) judge(name, 'look', `its flag ${job.flag.name} is off`);
    if (job.dead > 0) judge(name, 'wrong', `${job.dead} dead: see dead-letters ${job.name}`);
  }
  if (jobs.length === 0) judge('jobs', 'look', 'none was ever declared here: is this the schema of the application?');

  const overdue = await query<{ name: string; overdue_in_ms: number; success_at: Date | null }>(
    `select outlook.*
     from  (select array_agg(name order by name) as names,
                   array_agg((policies ->> 'expectSuccessWithinMs')::double precision order by name) as within_ms,
                   array_agg(coalesce((policies ->> 'catchUpWindowMs')::double precision, 0) order by name) as window_ms
            from   ${tables.jobSchedule}
            where  policies ->> 'expectSuccessWithinMs' is not null
            and    removed_at is null) expected
     cross  join lateral ${tables.qualify('job_success_outlook_1')}(expected.names, expected.within_ms, expected.window_ms) outlook
     where  expected.names is not null`,
  );
  for (const one of overdue.filter(({ overdue_in_ms }) => overdue_in_ms <= 0))
    judge(
      `job ${one.name}`,
      'wrong',
      `overdue by ${span(-one.overdue_in_ms)}: last success ${one.success_at ? utc(one.success_at) : 'never'}`,
    );

  const stuck = await query<{ job_name: string; fire_time: Date; lease_until: Date }>(
    `select job_name, fire_time, lease_until
     from   ${tables.jobRuns}
     where  status = 'running'
     and    lease_until < clock_timestamp() - $1 * interval '1 millisecond'
     order  by lease_until
     limit  20`,
    [STUCK_AFTER_MS],
  );
  for (const run of stuck)
    judge(
      `job ${run.job_name}`,
      'wrong',
      `its run of ${utc(run.fire_time)} is nobody's since ${utc(run.lease_until)}, and was not reaped: does a replica run?`,
    );

  const decided = await query<{ name: string; decided_until: Date }>(
    `select name, decided_until from ${tables.jobSchedule}`,
  );
  const decidedUntil = new Map(decided.map((one) => [one.name, one.decided_until.getTime()]));
  for (const { name, cron, timeZone, calendar, trigger, nextFireTime } of jobs) {
    // What is held back, or waits for a delivery, is nobody's to decide.
    if (nextFireTime === null || trigger === 'external') continue;
    const due = compileSchedule(cron, timeZone, name, calendar).nextAfter(decidedUntil.get(name)!);
    if (due !== null && due < server!.now.getTime() - LATE_MS)
      judge(`job ${name}`, 'wrong', `what was due at ${utc(new Date(due))} has no decision yet`);
  }

  const inDoubt = await verbs.inDoubt({ limit: 1_000 });
  if (inDoubt.length > 0) judge('calls in doubt', 'wrong', `${inDoubt.length}: see in-doubt`);
  return findings;
}
