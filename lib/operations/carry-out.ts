import { setTimeout as sleep } from 'node:timers/promises';
import type { FunctionValue, SchedulerDatabase } from '../database/scheduler-database.js';
import { queryOn } from '../database/query.js';
import { unlessBusy } from '../database/retry.js';
import { busy, renamedJob } from '../errors/errors.js';
import { noSuchJob } from '../jobs/stored-job.js';

/** An operator as `readOperator` reads one. */
export interface ReadOperator {
  readonly by: string;
  readonly reason: string | null;
}

/** What a verb's function of the database says: what became of it, and what that is told with. */
export interface VerbAnswer<Facts> {
  readonly verdict: string;
  readonly facts: Facts;
}

/** The verb in words, and the job it is about; null for none. */
interface Asked {
  readonly verb: string;
  readonly jobName: string | null;
  /** Of what, when it is not the job. */
  readonly what?: string;
}

/**
 * How often a row is looked at that another transaction holds, and how long between two looks, in milliseconds. No
 * connection is held meanwhile.
 */
const LOOKS = 20;
const BETWEEN_LOOKS_MS = 100;

/**
 * Calls the function of an operator's verb.
 * @throws NotFoundError; OperationRefusedError also when another transaction holds for long what it would
 * change
 */
export async function carryOut<Facts = unknown>(
  database: SchedulerDatabase,
  name: string,
  values: readonly FunctionValue[],
  { verb, jobName, what }: Asked,
): Promise<VerbAnswer<Facts>> {
  const held = what ?? `job "${jobName}"`;
  for (let look = 1; look <= LOOKS; look++) {
    const [answer] = await unlessBusy(verb, held, () => database.call<VerbAnswer<Facts>>(name, values));
    const { verdict, facts } = answer!;
    if (verdict === 'unknown job')
      throw await noSuchJob(queryOn(database.coordination), database.tables.jobSchedule, jobName!);
    if (verdict === 'renamed') throw renamedJob(jobName!, (facts as { yieldsTo: string }).yieldsTo);
    if (verdict !== 'busy') return answer!;
    await sleep(BETWEEN_LOOKS_MS);
  }
  throw busy(verb, held);
}
