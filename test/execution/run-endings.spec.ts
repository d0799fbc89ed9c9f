import { afterEach, describe, expect, it, jest } from '@jest/globals';
import type { SchedulerFact } from '../../lib/observe/scheduler-event.js';
import { SchedulerEvents } from '../../lib/observe/scheduler-events.js';
import { InFlightRun } from '../../lib/runs/in-flight-runs.js';
import { monotonicNow } from '../../lib/database/clock.js';
import { endsAlone } from '../support/ends-alone.js';
import { someEndings } from '../support/executor.js';
import { DONE as COMPLETED } from '../../lib/runs/outcome.js';
import { aJob } from '../support/job.js';
import { aRun } from '../support/run.js';

const DONE = { status: 'done', reason: null };

const answers =
  (...given: (object | null | Error)[]) =>
  async () => {
    const answer = given.length > 1 ? given.shift()! : given[0]!;
    if (answer instanceof Error) throw answer;
    return answer;
  };

/** Writes the completion of a run through a store that answers so. */
async function complete(
  store: { end: () => Promise<unknown>; endOf?: () => Promise<unknown> },
  leaseMs = 60_000,
): Promise<SchedulerFact['type'][]> {
  const events = new SchedulerEvents();
  const told: SchedulerFact['type'][] = [];
  events.subscribe(({ type }) => told.push(type));
  const run = new InFlightRun(aRun({ leaseDeadline: monotonicNow() + leaseMs }), aJob('job', '* * * * *'));
  await someEndings(events, endsAlone(store), store).write(run, COMPLETED, 5);
  expect(run.settled).toBe(true);
  return told;
}

describe('trap 18: the end of an attempt', () => {
  afterEach(() => void jest.restoreAllMocks());

  it('is written again when the database failed', async () => {
    expect(await complete({ end: answers(new Error('gone'), new Error('gone'), DONE) })).toEqual([
      'loop.failed',
      'loop.failed',
      'run.completed',
    ]);
  });

  it('that was accepted though its answer was lost is accepted', async () => {
    expect(await complete({ end: answers(new Error('gone'), null), endOf: answers(DONE) })).toEqual([
      'loop.failed',
      'run.completed',
    ]);
  });

  it('that was refused is told as refused', async () => {
    expect(await complete({ end: answers(null) })).toEqual(['run.refused']);
    expect(await complete({ end: answers(new Error('gone'), null), endOf: answers(null) })).toEqual([
      'loop.failed',
      'run.refused',
    ]);
  });

  it('is given up with the lease', async () => {
    const told = await complete({ end: answers(new Error('gone')) }, 120);
    expect(told.at(-1)).toBe('run.refused');
    expect(told.length).toBeLessThan(5);
  });

  it('that the database refuses again and again for its data is given up at once: its lease runs out', async () => {
    const refused = Object.assign(new Error('no'), { code: '22P05' });
    expect(await complete({ end: answers(refused) })).toEqual(['loop.failed', 'data.refused', 'run.refused']);
  });

  it('that failed together with others does not come back together with them', async () => {
    const random = jest.spyOn(Math, 'random');
    const told = await complete({ end: answers(new Error('gone'), new Error('gone'), DONE) });
    expect(random).toHaveBeenCalledTimes(told.filter((type) => type === 'loop.failed').length);
  });
});
