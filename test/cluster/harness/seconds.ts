import type { Cluster } from './cluster.js';
import { eventually } from './eventually.js';
import type { RunRow } from './ledger.js';

const SECOND = 1_000;

/** What is wrong with the occurrences of a job that fires every second: fire times, and none when all is well. */
export interface Wrongs {
  /** Without a decision. */
  readonly lost: string[];
  /** Decided by more than one row, or with more than one effect. */
  readonly twice: string[];
  /** Started before its fire time. */
  readonly early: string[];
}

export const NOTHING_WRONG: Wrongs = { lost: [], twice: [], early: [] };

/** Judges every second from the job's registration to a fire time, by the database's rows and clock alone. */
export async function judgeSeconds({ database, ledger }: Cluster, jobName: string, until: Date): Promise<Wrongs> {
  const [job] = await database.query<{ from: Date }>(
    'select effective_from as "from" from job_schedule where name = $1',
    [jobName],
  );
  const runs = await ledger.runs(jobName);
  const effects = countBy((await ledger.effects(jobName)).map(({ fireTime }) => fireTime.getTime()));
  const decided = countBy(runs.flatMap(covered));
  const all = seconds(Math.floor(job!.from.getTime() / SECOND) * SECOND + SECOND, until.getTime());
  return {
    lost: iso(all.filter((second) => !decided.has(second))),
    twice: iso([...decided, ...effects].filter(([, count]) => count > 1).map(([second]) => second)),
    early: iso(
      runs
        .filter(({ startedAt, fireTime }) => startedAt !== null && startedAt < fireTime)
        .map(({ fireTime }) => fireTime.getTime()),
    ),
  };
}

/** Waits until this many occurrences later than an instant are done. @returns the newest */
export function secondsDone({ ledger }: Cluster, jobName: string, count: number, after = new Date(0)): Promise<RunRow> {
  return eventually(
    `${count} runs of ${jobName} after ${after.toISOString()}`,
    async () => {
      const done = (await ledger.runs(jobName)).filter(({ status, fireTime }) => status === 'done' && fireTime > after);
      return done.length >= count && done.at(-1);
    },
    { seen: async () => (await ledger.runs(jobName)).slice(-5) },
  );
}

function covered({ fireTime, gapFrom }: RunRow): number[] {
  return seconds((gapFrom ?? fireTime).getTime(), fireTime.getTime());
}

function seconds(from: number, until: number): number[] {
  return Array.from({ length: Math.max(0, (until - from) / SECOND + 1) }, (_, index) => from + index * SECOND);
}

function countBy(values: readonly number[]): Map<number, number> {
  const counts = new Map<number, number>();
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
  return counts;
}

function iso(instants: readonly number[]): string[] {
  return instants.map((instant) => new Date(instant).toISOString());
}
