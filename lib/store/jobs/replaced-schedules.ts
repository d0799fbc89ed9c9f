import type { MissedGap } from '../../domain/missed/catch-up.js';
import { planReplaced, type ReplacedSchedule } from '../../domain/schedule/replaced-schedule.js';
import { decidedSpans, insertDecisions } from '../runs/decided-rows.js';
import { lockJobs } from '../runs/job-locks.js';
import type { PartitionStore } from '../upkeep/partition.store.js';
import type { Query } from '../connection/query.js';
import { changingSchedules } from './schedule-changes.js';
import type { SchedulerDatabase } from '../scheduler-database.js';

/**
 * Records what the schedules that are being replaced leave undecided, once their jobs are held.
 * @returns up to when: from there on the new ones hold
 */
export type Replace = (replaced: readonly ReplacedSchedule[]) => Promise<Date>;

/** A change of schedules, in which some may be replaced by others: nothing of them is claimed or decided meanwhile. */
export function replacingSchedules<Result>(
  database: SchedulerDatabase,
  partitions: PartitionStore,
  work: (query: Query, revision: number, replace: Replace) => Promise<Result>,
): Promise<Result> {
  const { tables } = database;
  let gaps: { jobName: string; gap: MissedGap }[] = [];
  const replaceOn = (query: Query): Replace => async (replaced) => {
    const [clock] = await query<{ now: Date }>('select clock_timestamp() as now');
    if (replaced.length === 0) return clock!.now;
    const decided = await decidedSpans(query, tables, replaced.map(({ name, decidedUntil }) => ({ name, from: decidedUntil })));
    gaps = replaced.flatMap((schedule) => {
      const gap = planReplaced(schedule, decided.get(schedule.name)!, clock!.now.getTime());
      return gap ? [{ jobName: schedule.name, gap }] : [];
    });
    await insertDecisions(
      query,
      tables,
      gaps.map(({ jobName, gap }) => ({ jobName, fireTime: gap.until, status: 'skipped', reason: gap.reason, gap })),
    );
    return clock!.now;
  };
  return partitions.makingSure(
    () => gaps.map(({ gap }) => new Date(gap.until)),
    () => changingSchedules(database, (query, revision) => work(query, revision, replaceOn(query))),
  );
}

/** Waits for claims and catch-ups of the jobs that are under way, and lets none begin until the transaction ends. */
export async function holdJobs(query: Query, { tables }: SchedulerDatabase, names: readonly string[]): Promise<void> {
  const sorted = [...new Set(names)].sort();
  await query(lockJobs(tables.schema, '$1::jsonb'), [JSON.stringify(sorted)]);
  await query(`select from ${tables.jobSchedule} where name = any ($1::text[]) order by name for no key update`, [sorted]);
}
