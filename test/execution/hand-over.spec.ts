import { describe, expect, it } from '@jest/globals';
import { setTimeout as sleep } from 'node:timers/promises';
import type { CronRun } from '../../lib/runs/cron-run.js';
import type { SchedulerFact } from '../../lib/observe/scheduler-event.js';
import { SchedulerEvents } from '../../lib/observe/scheduler-events.js';
import { RunStepsService } from '../../lib/runs/run-steps.service.js';
import { InFlightRuns, type InFlightRun } from '../../lib/runs/in-flight-runs.js';
import { requireUnderWay, RunContext } from '../../lib/runs/run-context.js';
import type { RunEnd } from '../../lib/runs/outcome.js';
import { anExecutor, someEndings } from '../support/executor.js';
import { aJob } from '../support/job.js';
import { endsAlone } from '../support/ends-alone.js';
import { aRun } from '../support/run.js';

interface Story {
  readonly run: CronRun;
  readonly here: InFlightRun;
  readonly runs: InFlightRuns;
  readonly told: readonly SchedulerFact['type'][];
  readonly forgotten: readonly InFlightRun[];
}

/** Executes one run with this handler, until it has ended. @param status what becomes of the row when it is released */
async function execute(
  handler: (story: Story) => Promise<unknown>,
  status: 'queued' | 'cancelled' | 'not ours' = 'queued',
) {
  const events = new SchedulerEvents();
  const told: SchedulerFact['type'][] = [];
  events.subscribe(({ type }) => told.push(type));
  const runs = new InFlightRuns(events);
  const forgotten: InFlightRun[] = [];
  runs.keptBy({ watch: () => {}, forget: (run) => forgotten.push(run) });
  const written: RunEnd[] = [];
  const store = {
    end: async (_run: unknown, ending: RunEnd) => {
      await sleep(20);
      written.push(ending);
      return status === 'not ours' ? null : { status, reason: 'because' };
    },
  };
  const endings = someEndings(events, endsAlone(store), store);
  // What a handler throws changes nothing any more, also what a test has to say in it.
  let complaint: Error | null = null;
  const keep = (error: Error) => {
    if ('matcherResult' in error) complaint = error;
    throw error;
  };
  const job = {
    definition: aJob('job', '* * * * *'),
    handler: (run: object) =>
      handler({ run: run as CronRun, here: runs.list()[0]!, runs, told, forgotten }).catch(keep),
  };
  const steps = new RunStepsService(new RunContext(), runs, store as never, endings, {} as never);
  const executor = anExecutor(job, runs, endings, events, steps);
  executor.start([aRun()]);
  await runs.drained(5_000);
  if (complaint) throw complaint;
  return { told, written };
}

describe('a handler that is told to stop by a shutdown and hands its run over', () => {
  it('is rid of it at once, without an attempt used up, while it winds down', async () => {
    const { told, written } = await execute(async ({ run, here, runs, told, forgotten }) => {
      here.shutDown();
      expect(await run.release('the rest is for another')).toBe(true);
      expect(told).toEqual(['run.started', 'run.released']);
      expect(forgotten.map(({ id }) => id)).toEqual([here.id]);
      // Here no other run of the job starts beside what is left of this one.
      expect(runs.lingers(here.job)).toBe(true);
    });
    expect(written).toEqual([
      {
        status: 'queued',
        reason: 'released by its handler: the rest is for another',
        error: null,
        retryInMs: 0,
        releases: 1,
      },
    ]);
    expect(told).toEqual(['run.started', 'run.released']);
  });

  it.each<[string, (story: Story) => Promise<unknown>]>([
    ['throws', async ({ run }) => (await run.release(), Promise.reject(new Error('later')))],
    ['does so again', async ({ run }) => [await run.release(), await run.release('again')]],
    ['does not await it', async ({ run }) => void run.release()],
  ])('has done so once, also when it then %s', async (_what, handler) => {
    const { told, written } = await execute(async (story) => {
      story.here.shutDown();
      return handler(story);
    });
    expect(written).toMatchObject([{ reason: 'released by its handler' }]);
    expect(told).toEqual(['run.started', 'run.released']);
  });

  it('is told when somebody cancelled the run meanwhile, or took it', async () => {
    const release = async ({ run, here }: Story) => {
      here.shutDown();
      expect(await run.release()).toBe(false);
    };
    expect((await execute(release, 'cancelled')).told).toEqual(['run.started', 'run.cancelled']);
    expect((await execute(release, 'not ours')).told).toEqual(['run.started', 'run.refused']);
  });
});

describe('what comes after a hand-over', () => {
  it('is refused in words that fit, and a reason that is cut inside a character does not spoil the write of others', async () => {
    let refused: unknown;
    const { written } = await execute(async ({ run, here }) => {
      here.shutDown();
      await run.release(`${'x'.repeat(499)}\u{1f600}`);
      try {
        requireUnderWay('ReceiptService.once', here);
      } catch (error) {
        refused = error;
      }
    });
    expect(refused).toMatchObject({ code: 'after-run' });
    expect(String(refused)).toMatch(/ReceiptService\.once was called after the handler of job of .* had given it up/);
    expect(written[0]!.reason!.isWellFormed()).toBe(true);
  });
});

describe('a run is not handed over', () => {
  it('while its application goes on: a handler that always did it would be started for ever', async () => {
    let refused: unknown;
    const { written } = await execute(async ({ run }) =>
      run.release().catch((error: unknown) => Promise.reject((refused = error))),
    );
    expect(refused).toMatchObject({ code: 'run-status' });
    expect(String(refused)).toMatch(
      /Cannot release job of .*, which is running: its application is not stopping; throw new RetryLater\(\)/,
    );
    expect(written).toMatchObject([{ status: 'failed', releases: 0 }]);
  });

  it.each<[string, (run: InFlightRun, runs: InFlightRuns) => void, object[]]>([
    ['was cancelled', (run) => run.cancel('wrong month'), [{ status: 'cancelled', reason: 'wrong month' }]],
    [
      'was cancelled while it was shut down',
      (run) => (run.shutDown(), run.cancel('wrong month')),
      [{ status: 'cancelled', reason: 'wrong month' }],
    ],
    ['timed out', (run) => run.timeOut('maxRunTime'), [{ status: 'failed', releases: 0 }]],
    ['lost its lease', (run, runs) => runs.lose(run, 'expired'), []],
  ])('that %s', async (_what, stop, ends) => {
    const { written } = await execute(async ({ run, here, runs }) => {
      stop(here, runs);
      expect(await run.release()).toBe(false);
    });
    expect(written).toMatchObject(ends);
  });

  it('after its handler has ended', async () => {
    let kept: CronRun | undefined;
    await execute(async ({ run, here }) => {
      kept = run;
      here.shutDown();
    });
    await expect(kept!.release()).rejects.toThrow(expect.objectContaining({ code: 'after-run' }));
  });
});
