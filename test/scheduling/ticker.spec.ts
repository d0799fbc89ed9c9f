import { beforeEach, describe, expect, it } from '@jest/globals';
import type { JobDefinition } from '../../lib/domain/job-definition.js';
import { DatabaseTime } from '../../lib/runtime/database-time.js';
import { ClaimOrder } from '../../lib/scheduling/claim-order.js';
import { JobTimeline } from '../../lib/scheduling/job-timeline.js';
import { TickerService } from '../../lib/scheduling/ticker.service.js';
import { Timelines } from '../../lib/scheduling/timelines.js';
import type { Candidate } from '../../lib/execution/claim.service.js';
import type { ClaimVerdict } from '../../lib/store/claim.store.js';
import { aJob } from '../support/job.js';

const at = (time: string) => Date.parse(`2026-03-10T${time}Z`);

/** A ticker on a clock that the test sets, whose claims are answered by the test. */
class Bench {
  now = 0;
  caughtUp = 0;
  lingering = '';
  readonly asked: string[][] = [];
  readonly timelines = new Timelines();
  answer: (candidate: Candidate) => ClaimVerdict = () => 'claimed';
  readonly ticker: TickerService;

  constructor(jobs: JobDefinition[], decidedUntil: number, maxConcurrentRuns = 1_000) {
    for (const job of jobs) this.timelines.set(new JobTimeline(job, decidedUntil));
    const time = new DatabaseTime(() => this.now);
    time.observe(0, 0);
    const claimDue = async (candidates: readonly Candidate[]) => {
      if (candidates.length > 0) this.asked.push(candidates.map(({ job, fireTime }) => `${job.name} ${new Date(fireTime).toISOString().slice(11, 19)}`));
      const verdicts = candidates.map(this.answer);
      return { owned: verdicts.filter((verdict) => verdict === 'claimed'), verdicts };
    };
    const runs = { size: 0, lingers: ({ name }: JobDefinition) => name === this.lingering };
    this.ticker = new TickerService(
      { pollIntervalMs: 5_000, maxConcurrentRuns } as never,
      this.timelines,
      new ClaimOrder('A'),
      { claimDue } as never,
      { start: (owned: unknown[]) => (runs.size += owned.length) } as never,
      { wake: () => (this.caughtUp += 1) } as never,
      runs as never,
      time,
      { emit: () => {} } as never,
    );
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
      expect(bench.timelines.get('job')!.dueAt).toBe(at('10:02:00'));
    }
  });

  it('tries again at once what the database calls early', async () => {
    bench.answer = () => 'early';
    expect(await bench.tick(at('10:01:00'))).toBe(1);
    expect(bench.timelines.get('job')!.dueAt).toBe(at('10:01:00'));
  });

  it('trap 21: does not pass over what waits, though a later one is decided', async () => {
    bench.answer = ({ fireTime }) => (fireTime === at('10:01:00') ? 'waiting' : 'skipped');
    expect(await bench.tick(at('10:02:00'))).toBe(250);
    expect(bench.timelines.get('job')!.dueAt).toBe(at('10:01:00'));
    bench.answer = () => 'taken';
    await bench.tick(at('10:02:00'));
    expect(bench.timelines.get('job')!.dueAt).toBe(at('10:03:00'));
  });

  it('leaves to others what does not fit, and forgets nothing of it', async () => {
    bench = new Bench([aJob('a', '* * * * *'), aJob('b', '* * * * *'), aJob('c', '* * * * *')], at('10:00:00'), 2);
    expect(await bench.tick(at('10:01:00'))).toBe(250);
    expect(bench.asked.flat()).toHaveLength(2);
    expect(bench.timelines.live(at('10:01:00'))).toHaveLength(1);
  });

  it('goes on in batches while there is room', async () => {
    bench = new Bench([aJob('a', '* * * * *'), aJob('b', '* * * * *'), aJob('c', '* * * * *')], at('10:00:00'), 2);
    bench.answer = () => 'taken';
    expect(await bench.tick(at('10:01:00'))).toBe(60_000);
    expect(bench.asked.map((batch) => batch.length)).toEqual([2, 1]);
  });

  it('G14: a job with many late occurrences does not push the others out', async () => {
    bench = new Bench([aJob('late', '* * * * * *', { lateAfterMs: 600_000 })], at('10:00:00'), 20);
    bench.timelines.set(new JobTimeline(aJob('other', '* * * * *'), at('10:00:00')));
    bench.answer = ({ job }) => (job.name === 'late' ? 'waiting' : 'claimed');
    await bench.tick(at('10:01:00'));
    expect(bench.asked[0]).toContain('other 10:01:00');
  });

  it('G14: a job that cannot start gives the last place to another', async () => {
    bench = new Bench([aJob('stuck', '* * * * *')], at('09:59:00'), 1);
    bench.timelines.set(new JobTimeline(aJob('other', '* * * * *'), at('10:00:00')));
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
    bench = new Bench(Array.from({ length: 250 }, (_, index) => aJob(`job-${index}`, '* * * * *')), at('10:00:00'));
    bench.answer = () => 'waiting';
    expect(await bench.tick(at('10:01:00'))).toBe(250);
    expect(bench.asked.map((batch) => batch.length)).toEqual([200, 50]);
  });

  it('leaves what is missed to the catch-up, and starts what is live', async () => {
    bench = new Bench([MINUTELY], at('09:00:00'));
    bench.timelines.set(new JobTimeline(aJob('live', '* * * * *'), at('10:00:00')));
    expect(await bench.tick(at('10:01:00'))).toBe(250);
    expect(bench.asked).toEqual([['live 10:01:00']]);
    expect(bench.caughtUp).toBe(1);
  });
});
