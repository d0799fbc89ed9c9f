import { beforeEach, describe, expect, it, jest } from '@jest/globals';
import type { JobDefinition } from '../../lib/options/job-definition.js';
import { DatabaseTime } from '../../lib/database/clock.js';
import { DueRuns } from '../../lib/runs/agenda.js';
import { RunStarter } from '../../lib/runs/executor.service.js';
import { ClaimOrder } from '../../lib/runs/claim-order.js';
import { JobCursor, JobCursors } from '../../lib/jobs/job-cursors.js';
import { TickerService } from '../../lib/runs/ticker.service.js';
import type { Candidate } from '../../lib/jobs/job-cursors.js';
import type { ClaimVerdict } from '../../lib/runs/claim.js';
import { aJob } from '../support/job.js';

const at = (time: string) => Date.parse(`2026-03-10T${time}Z`);

/** A ticker on a clock that the test sets, whose claims are answered by the test. */
class Bench {
  now = 0;
  caughtUp = 0;
  lingering = '';
  readonly asked: string[][] = [];
  /** How many were due, and how many batches had been asked for by then. */
  readonly lookedFirst: [due: number, asked: number][] = [];
  readonly cursors = new JobCursors();
  answer: (candidate: Candidate) => ClaimVerdict = () => 'claimed';
  started = () => {};
  /** Keys that have a row by now, as a look at them finds. */
  readonly decided = new Set<string>();
  readonly looked: string[][] = [];
  readonly order = new ClaimOrder('A');
  readonly ticker: TickerService;
  private readonly runs = {
    size: 0,
    get taken() {
      return this.size;
    },
    reserving: (_places: number, work: () => Promise<unknown>) => work(),
    lingers: ({ name }: JobDefinition) => name === this.lingering,
  };

  constructor(jobs: JobDefinition[], decidedUntil: number, maxConcurrentRuns = 1_000) {
    for (const job of jobs) this.cursors.set(new JobCursor(job, decidedUntil));
    const time = new DatabaseTime(() => this.now);
    time.observe(0, 0);
    const claimDue = async (candidates: readonly Candidate[]) => {
      if (candidates.length > 0)
        this.asked.push(
          candidates.map(({ job, fireTime }) => `${job.name} ${new Date(fireTime).toISOString().slice(11, 19)}`),
        );
      const verdicts = candidates.map(this.answer);
      return { owned: verdicts.filter((verdict) => verdict === 'claimed'), verdicts };
    };
    const decided = async (candidates: readonly Candidate[]) => {
      const keys = candidates.map(
        ({ job, fireTime }) => `${job.name} ${new Date(fireTime).toISOString().slice(11, 19)}`,
      );
      this.looked.push(keys);
      return keys.map((one) => this.decided.has(one));
    };
    this.cursors.whenMissed(() => (this.caughtUp += 1));
    const starter = new RunStarter(
      { maxConcurrentRuns },
      this.runs as never,
      { claimDue, decided } as never,
      { start: (owned: unknown[]) => ((this.runs.size += owned.length), this.started()) } as never,
      time,
    );
    this.ticker = new TickerService(
      { pollIntervalMs: 5_000 },
      new DueRuns(this.cursors, this.order, starter),
      starter,
      {
        startBefore: async (due: readonly Candidate[]) => void this.lookedFirst.push([due.length, this.asked.length]),
      } as never,
      { emit: () => {} } as never,
    );
  }

  /** All handlers have ended. */
  end(): void {
    this.runs.size = 0;
  }

  tick(now: number): Promise<number> {
    this.now = now;
    return this.ticker.tick();
  }
}

const MINUTELY = aJob('job', '* * * * *');
let bench: Bench;
beforeEach(() => {
  bench = new Bench([MINUTELY], at('10:00:00'));
});

describe('a tick', () => {
  it('sleeps to the next due instant, and claims it then', async () => {
    expect(await bench.tick(at('10:00:30'))).toBe(30_000);
    expect(await bench.tick(at('10:01:00'))).toBe(60_000);
    expect(bench.asked).toEqual([['job 10:01:00']]);
  });

  it('goes on from what is decided, whoever decided it', async () => {
    for (const verdict of ['claimed', 'taken', 'skipped'] as const) {
      bench = new Bench([MINUTELY], at('10:00:00'));
      bench.answer = () => verdict;
      await bench.tick(at('10:01:00'));
      expect(bench.cursors.get('job')!.dueAt).toBe(at('10:02:00'));
    }
  });

  it('tries again at once what the database calls early', async () => {
    bench.answer = () => 'early';
    expect(await bench.tick(at('10:01:00'))).toBe(1);
    expect(bench.cursors.get('job')!.dueAt).toBe(at('10:01:00'));
  });

  it('lets what waits for the same places go first, before anything of it is claimed', async () => {
    await bench.tick(at('10:00:30'));
    bench = new Bench(
      [aJob('job', '* * * * *', { concurrencyGroup: { name: 'few', limit: 1 } }), aJob('other', '* * * * *')],
      at('10:00:00'),
    );
    await bench.tick(at('10:02:00'));
    expect(bench.lookedFirst).toEqual([[2, 0]]);
  });

  it('trap 21: does not pass over what waits, though a later one is decided', async () => {
    bench.answer = ({ fireTime }) => (fireTime === at('10:01:00') ? 'waiting' : 'skipped');
    expect(await bench.tick(at('10:02:00'))).toBe(250);
    expect(bench.cursors.get('job')!.dueAt).toBe(at('10:01:00'));
    bench.answer = () => 'taken';
    await bench.tick(at('10:02:00'));
    expect(bench.cursors.get('job')!.dueAt).toBe(at('10:03:00'));
  });

  it('leaves to others what does not fit, and forgets nothing of it', async () => {
    bench = new Bench([aJob('a', '* * * * *'), aJob('b', '* * * * *'), aJob('c', '* * * * *')], at('10:00:00'), 2);
    expect(await bench.tick(at('10:01:00'))).toBe(250);
    expect(bench.asked.flat()).toHaveLength(2);
    expect(bench.cursors.due(at('10:01:00')).live).toHaveLength(1);
  });

  it('goes on with what it has no room for as places get free, and sorts it anew only now and then', async () => {
    bench = new Bench(
      Array.from({ length: 9 }, (_, index) => aJob(`job-${index}`, '* * * * *')),
      at('10:00:00'),
      2,
    );
    const due = jest.spyOn(bench.order, 'sort');
    for (let tick = 0; tick < 4; tick++) {
      await bench.tick(at('10:01:00') + tick);
      bench.end();
    }
    expect(due).toHaveBeenCalledTimes(1);
    await bench.tick(at('10:01:00') + 1_000);
    expect(due).toHaveBeenCalledTimes(2);
    expect(new Set(bench.asked.flat()).size).toBe(9);
    expect(bench.asked.flat()).toHaveLength(9);
  });

  it('tries what could not be decided first when it goes on, and what follows of the same job not before', async () => {
    bench = new Bench([aJob('stuck', '0,30 * * * * *'), aJob('other', '0,30 * * * * *')], at('10:00:01'), 2);
    bench.answer = ({ job }) => (job.name === 'stuck' ? 'waiting' : 'claimed');
    await bench.tick(at('10:01:00'));
    expect(bench.asked.map((batch) => batch.sort())).toEqual([
      ['other 10:00:30', 'stuck 10:00:30'],
      ['other 10:01:00'],
    ]);
    bench.answer = () => 'claimed';
    bench.end();
    await bench.tick(at('10:01:00') + 1);
    expect(bench.asked.slice(2)).toEqual([['stuck 10:00:30', 'stuck 10:01:00']]);
  });

  it('asks for nothing while there is no room, and looks again', async () => {
    bench = new Bench([MINUTELY], at('10:00:00'), 0);
    expect(await bench.tick(at('10:01:00'))).toBe(250);
    expect(await bench.tick(at('10:01:59.900'))).toBe(250);
    expect(bench.asked).toEqual([]);
    expect(bench.cursors.get('job')!.dueAt).toBe(at('10:01:00'));
  });

  it('goes on in batches while there is room', async () => {
    bench = new Bench([aJob('a', '* * * * *'), aJob('b', '* * * * *'), aJob('c', '* * * * *')], at('10:00:00'), 2);
    bench.answer = () => 'taken';
    expect(await bench.tick(at('10:01:00'))).toBe(60_000);
    expect(bench.asked.map((batch) => batch.length)).toEqual([2, 1]);
  });

  it('G14: a job with many late occurrences does not push the others out', async () => {
    bench = new Bench([aJob('late', '* * * * * *', { lateAfterMs: 600_000 })], at('10:00:00'), 20);
    bench.cursors.set(new JobCursor(aJob('other', '* * * * *'), at('10:00:00')));
    bench.answer = ({ job }) => (job.name === 'late' ? 'waiting' : 'claimed');
    await bench.tick(at('10:01:00'));
    expect(bench.asked[0]).toContain('other 10:01:00');
  });

  it('G14: a job that cannot start gives the last place to another', async () => {
    bench = new Bench([aJob('stuck', '* * * * *')], at('09:59:00'), 1);
    bench.cursors.set(new JobCursor(aJob('other', '* * * * *'), at('10:00:00')));
    bench.answer = ({ job }) => (job.name === 'stuck' ? 'waiting' : 'claimed');
    await bench.tick(at('10:01:00'));
    expect(bench.asked).toEqual([['stuck 10:00:00'], ['other 10:01:00']]);
  });

  it('G8: claims nothing of a job whose handler lost its lease and still runs here; others may', async () => {
    bench.lingering = 'job';
    expect(await bench.tick(at('10:01:00'))).toBe(250);
    expect(bench.asked).toEqual([]);
    bench.lingering = '';
    await bench.tick(at('10:01:00'));
    expect(bench.asked).toEqual([['job 10:01:00']]);
  });

  it('does not run hot when nothing of a full batch can be decided', async () => {
    bench = new Bench(
      Array.from({ length: 250 }, (_, index) => aJob(`job-${index}`, '* * * * *')),
      at('10:00:00'),
    );
    bench.answer = () => 'waiting';
    expect(await bench.tick(at('10:01:00'))).toBe(250);
    expect(bench.asked.map((batch) => batch.length)).toEqual([200, 50]);
  });

  it('leaves what is missed to the catch-up, and starts what is live', async () => {
    bench = new Bench([MINUTELY], at('09:00:00'));
    bench.cursors.set(new JobCursor(aJob('live', '* * * * *'), at('10:00:00')));
    expect(await bench.tick(at('10:01:00'))).toBe(250);
    expect(bench.asked).toEqual([['live 10:01:00']]);
    expect(bench.caughtUp).toBe(1);
  });

  it('a live fire is on time while another job waits for its turn', async () => {
    bench = new Bench([aJob('stuck', '* * * * *'), aJob('other', '5 1 10 * * *')], at('10:00:00'));
    bench.answer = ({ job }) => (job.name === 'stuck' ? 'waiting' : 'claimed');
    expect(await bench.tick(at('10:01:00'))).toBe(250);
    expect(await bench.tick(at('10:01:04.900'))).toBe(100);
    await bench.tick(at('10:01:05'));
    expect(bench.asked.flat()).toContain('other 10:01:05');
  });

  it('a live fire is on time when a place gets free just then, whatever there was no room for', async () => {
    bench = new Bench(
      [aJob('late', '* * * * * *', { lateAfterMs: 600_000 }), aJob('other', '5 1 10 * * *')],
      at('10:00:00'),
      2,
    );
    await bench.tick(at('10:01:04.900'));
    bench.end();
    await bench.tick(at('10:01:05'));
    expect(bench.asked.at(-1)).toContain('other 10:01:05');
  });

  it('does not run hot while something else comes due, and there is no room for it either', async () => {
    bench = new Bench([aJob('a', '* * * * *'), aJob('b', '* * * * *'), aJob('c', '1 1 10 * * *')], at('10:00:00'), 1);
    await bench.tick(at('10:01:00'));
    expect(await bench.tick(at('10:01:00.900'))).toBe(100);
    expect(await bench.tick(at('10:01:01'))).toBe(250);
  });

  it('a live fire is on time while there is no room for what is due before it, once there is', async () => {
    bench = new Bench(
      [aJob('a', '* * * * *'), aJob('b', '* * * * *'), aJob('next', '5 1 10 * * *')],
      at('10:00:00'),
      1,
    );
    expect(await bench.tick(at('10:01:04.900'))).toBe(100);
    bench.end();
    await bench.tick(at('10:01:04.950'));
    bench.end();
    await bench.tick(at('10:01:05'));
    expect(bench.asked.at(-1)).toEqual(['next 10:01:05']);
  });

  it('claims what comes due a moment after something that waits for its turn', async () => {
    bench = new Bench([aJob('stuck', '* * * * *'), aJob('other', '5 1 10 * * *')], at('10:00:00'));
    bench.answer = ({ job }) => (job.name === 'stuck' ? 'waiting' : 'claimed');
    await bench.tick(at('10:01:04.900'));
    await bench.tick(at('10:01:05'));
    expect(bench.asked.flat()).toContain('other 10:01:05');
  });

  it('trap 19: a live fire is on time while missed occurrences of another job are decided', async () => {
    bench = new Bench([MINUTELY], at('09:00:00'));
    bench.cursors.set(new JobCursor(aJob('live', '* * * * *'), at('10:00:00')));
    expect(await bench.tick(at('10:00:59.900'))).toBe(100);
  });

  it('tries again at once what the database calls early, also while another job waits for its turn', async () => {
    bench = new Bench([aJob('stuck', '* * * * *'), aJob('early', '* * * * *')], at('10:00:00'));
    bench.answer = ({ job }) => (job.name === 'stuck' ? 'waiting' : 'early');
    expect(await bench.tick(at('10:01:00'))).toBe(1);
  });

  it('a cursor that was replaced while its occurrence was claimed does not move the new one over anything', async () => {
    const edited = aJob('job', '30 * * * * *');
    bench.answer = () => {
      bench.cursors.set(new JobCursor(edited, at('10:00:00')));
      return 'claimed';
    };
    await bench.tick(at('10:01:00'));
    expect(bench.cursors.get('job')!.dueAt).toBe(at('10:00:30'));
  });

  it('claims nothing more of a job that was taken out meanwhile', async () => {
    bench = new Bench([aJob('a', '* * * * *'), aJob('b', '* * * * *')], at('10:00:00'), 1);
    bench.answer = ({ job }) => {
      bench.cursors.delete(job.name === 'a' ? 'b' : 'a');
      return 'taken';
    };
    await bench.tick(at('10:01:00'));
    expect(bench.asked).toHaveLength(1);
    expect(['a', 'b'].filter((name) => bench.cursors.get(name))).toHaveLength(1);
  });
});

describe('trap 22: date arithmetic', () => {
  /** Jobs whose computed fire times are counted, by job. */
  function countedJobs(...jobs: JobDefinition[]): { jobs: JobDefinition[]; computed: string[] } {
    const computed: string[] = [];
    const counted = jobs.map((job) => {
      const nextAfter = (instant: number) => (computed.push(job.name), job.schedule.nextAfter(instant));
      return { ...job, schedule: { ...job.schedule, nextAfter } };
    });
    return { jobs: counted, computed };
  }

  it('G15 is done for no job that is not due, jittered or not', async () => {
    const { jobs, computed } = countedJobs(
      aJob('due', '* * * * *'),
      aJob('daily', '0 12 * * *'),
      aJob('spread', '0 12 * * *', { jitterMs: 60_000 }),
    );
    bench = new Bench(jobs, at('10:00:00'));
    await bench.tick(at('10:00:30'));
    computed.length = 0;
    await bench.tick(at('10:00:40'));
    await bench.tick(at('10:01:00'));
    expect(computed).toEqual(['due']);
  });

  it('is done once all handlers have started', async () => {
    const { jobs, computed } = countedJobs(
      ...Array.from({ length: 250 }, (_, index) => aJob(`job-${index}`, '* * * * *')),
    );
    bench = new Bench(jobs, at('10:00:00'));
    computed.length = 0;
    const before: number[] = [];
    bench.started = () => before.push(computed.length);
    await bench.tick(at('10:01:00'));
    expect(before).toEqual([0, 0]);
    expect(computed).toHaveLength(250);
  });

  it('is done once for each fire time, however often a late occurrence is looked at', async () => {
    const { jobs, computed } = countedJobs(aJob('late', '* * * * * *', { jitterMs: 5_000 }));
    bench = new Bench(jobs, at('10:00:00'));
    bench.answer = () => 'waiting';
    await bench.tick(at('10:00:10'));
    const once = computed.length;
    await bench.tick(at('10:00:10'));
    bench.answer = () => 'taken';
    await bench.tick(at('10:00:10'));
    expect(computed.length - once).toBeLessThanOrEqual(2);
  });
});

describe('what is another instance’s to try', () => {
  const jobs = Array.from({ length: 20 }, (_, index) => aJob(`job-${index}`, '* * * * *'));
  const names = (lines: string[][]) =>
    lines
      .flat()
      .map((line) => line.split(' ')[0]!)
      .sort();
  let mine: string[];
  let others: string[];

  beforeEach(() => {
    bench = new Bench(jobs, at('10:00:00'));
    bench.order.hear(['A', 'B']);
    mine = jobs
      .filter((job) => bench.order.isMine(job))
      .map(({ name }) => name)
      .sort();
    others = jobs
      .filter((job) => !bench.order.isMine(job))
      .map(({ name }) => name)
      .sort();
  });

  it('is left to it for a moment, and then found decided without a claim', async () => {
    expect(await bench.tick(at('10:01:00'))).toBe(20);
    expect(names(bench.asked)).toEqual(mine);
    for (const name of others) bench.decided.add(`${name} 10:01:00`);
    expect(await bench.tick(at('10:01:00') + 20)).toBe(59_980);
    expect(names(bench.asked)).toEqual(mine);
    expect(names(bench.looked)).toEqual(others);
  });

  it('is claimed here when it is not decided by then', async () => {
    await bench.tick(at('10:01:00'));
    for (const name of others.slice(1)) bench.decided.add(`${name} 10:01:00`);
    await bench.tick(at('10:01:00') + 20);
    expect(names(bench.asked)).toEqual([...mine, others[0]!].sort());
    expect(bench.cursors.nextDueAt).toBe(at('10:02:00'));
  });

  it('is looked at again, once a claim of it was lost: whoever won that is at the rest', async () => {
    bench = new Bench(jobs, at('10:00:00'), mine.length + 2);
    bench.order.hear(['A', 'B']);
    await bench.tick(at('10:01:00'));
    // They win all of it while two of theirs are being claimed here.
    bench.answer = () => {
      for (const name of others) bench.decided.add(`${name} 10:01:00`);
      return 'taken';
    };
    await bench.tick(at('10:01:00') + 20);
    expect(bench.asked.map(({ length }) => length)).toEqual([mine.length, 2]);
    expect(bench.looked.map(({ length }) => length)).toEqual([others.length, others.length - 2]);
    expect(bench.cursors.nextDueAt).toBe(at('10:02:00'));
  });

  it('is looked at in one look, also what is left to others for longer', async () => {
    bench.order.hear(Array.from({ length: 10 }, (_, index) => String.fromCharCode(65 + index)));
    const left = jobs.filter((job) => !bench.order.isMine(job));
    const [soonest, latest] = [Math.min, Math.max].map((pick) => pick(...left.map((job) => bench.order.yieldMs(job))));
    expect(latest).toBeGreaterThan(soonest!);
    await bench.tick(at('10:01:00'));
    for (const { name } of jobs) bench.decided.add(`${name} 10:01:00`);
    await bench.tick(at('10:01:00') + soonest!);
    expect(names(bench.looked)).toEqual(left.map(({ name }) => name).sort());
    await bench.tick(at('10:01:00') + latest!);
    expect(bench.looked).toHaveLength(1);
  });

  it('is not looked at as long as there is no room for it', async () => {
    bench = new Bench(jobs, at('10:00:00'), mine.length);
    bench.order.hear(['A', 'B']);
    await bench.tick(at('10:01:00') + 20);
    expect(names(bench.asked)).toEqual(mine);
    expect(bench.looked).toEqual([]);
  });

  it('forgets nothing behind what is decided already', async () => {
    await bench.tick(at('10:01:00'));
    // Late: two occurrences of one job, the newer one decided by a person's hand.
    bench.decided.add(`${others[0]} 10:02:00`);
    await bench.tick(at('10:02:01'));
    expect(bench.asked.flat()).toContain(`${others[0]} 10:01:00`);
  });

  it('G1: asks once for each of several late occurrences that wait for a place of their group, or one run would begin twice', async () => {
    bench = new Bench(jobs, at('10:00:00'), mine.length);
    bench.order.hear(['A', 'B']);
    const waits = mine[0]!;
    bench.cursors.set(
      new JobCursor(
        aJob(waits, '0,20,40 * * * * *', { overlap: 'allow', concurrencyGroup: { name: 'full', limit: 3 } }),
        at('10:00:00'),
      ),
    );
    for (const name of others.slice(1)) bench.decided.add(`${name} 10:01:00`);
    bench.answer = ({ job }) => (job.name === waits ? 'waiting' : 'claimed');
    await bench.tick(at('10:01:00') + 20);
    expect(bench.asked.at(-1)).toEqual([`${others[0]} 10:01:00`]);
    bench.answer = () => 'claimed';
    bench.end();
    await bench.tick(at('10:01:00') + 270);
    expect(bench.asked.at(-1)).toEqual([`${waits} 10:00:20`, `${waits} 10:00:40`, `${waits} 10:01:00`]);
  });
});
