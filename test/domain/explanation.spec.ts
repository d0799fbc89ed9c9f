import { describe, expect, it } from '@jest/globals';
import type {
  ExplainedJob,
  ExplainedRow,
  ExplainedStart,
  ExplanationFacts,
  ExplanationKind,
} from '../../lib/operations/explanation-facts.js';
import { explanationOf } from '../../lib/operations/explanation.js';

const at = (time: string) => new Date(`2026-03-10T${time}Z`);
const FIRE_TIME = at('02:15');

const JOB: ExplainedJob = {
  effectiveFrom: at('00:00'),
  decidedUntil: at('02:00'),
  enabled: true,
  paused: null,
  flag: 'exports',
  flagOff: 'finish',
  flagIsOff: false,
  yieldsTo: null,
  removedAt: null,
  instances: 2,
};
const ROW: ExplainedRow = {
  fireTime: FIRE_TIME,
  status: 'done',
  trigger: 'schedule',
  reason: null,
  starts: [],
  leaseUntil: null,
  nextAttemptAt: null,
  requestedBy: null,
  cancelRequestedAt: null,
  gap: null,
};
const start = (changes: Partial<ExplainedStart> = {}): ExplainedStart => ({
  attempt: 1,
  instanceId: 'A',
  startedAt: at('02:15:01'),
  finishedAt: at('02:20'),
  status: 'done',
  error: null,
  ...changes,
});

const explain = (changes: Partial<ExplanationFacts> = {}) =>
  explanationOf({
    jobName: 'export',
    fireTime: FIRE_TIME,
    now: at('03:00'),
    job: JOB,
    row: null,
    schedule: { fires: true, before: at('01:15'), after: at('03:15') },
    beside: [],
    skippedFor: [],
    inTheWay: null,
    elsewhere: null,
    ...changes,
  });
const row = (changes: Partial<ExplainedRow>): ExplainedRow => ({ ...ROW, ...changes });
const job = (changes: Partial<ExplainedJob>): ExplainedJob => ({ ...JOB, ...changes });

describe('of a planned time that ran', () => {
  it('says how many runners started, what blocked the second, what it overlapped, and how to do it again', () => {
    const starts = [
      start({ status: 'orphaned', finishedAt: at('02:18'), error: 'the lease ran out' }),
      start({ attempt: 2, instanceId: 'B', startedAt: at('02:18:01') }),
    ];
    const explained = explain({ row: row({ starts }), beside: [at('02:45')], skippedFor: [at('03:15')] });
    expect(explained).toMatchObject({ kind: 'done', starts, why: null, beside: [at('02:45')] });
    expect(explained.text.split('\n')).toEqual([
      'export of 2026-03-10T02:15:00.000Z: done.',
      'Runners started for it: 2, one after the other: attempt 1 on A 2026-03-10T02:15:01.000Z, orphaned 2026-03-10T02:18:00.000Z (the lease ran out); ' +
        'attempt 2 on B 2026-03-10T02:18:01.000Z, done 2026-03-10T02:20:00.000Z.',
      'A second start is blocked by the unique key (job_name, fire_time) of job_runs: the row is there, and every other claim finds it. ' +
        'What attempt 2 or one before it still writes is refused: each write names its attempt.',
      'It overlapped 2026-03-10T02:45:00.000Z. Skipped because of it: 2026-03-10T03:15:00.000Z.',
      'To run this period again: SchedulerService.backfill("export", new Date("2026-03-10T02:15:00.000Z"), new Date("2026-03-10T02:15:00.000Z"), { replay: true }); ' +
        'what its receipts have done is not done twice. For a run that has nothing to do with it: runNow.',
    ]);
  });

  it.each<[ExplainedRow['status'], string]>([
    ['running', 'another attempt would resume from there'],
    ['failed', 'its next attempt resumes from there'],
    ['dead', 'a replay of it resumes from there'],
    ['done', 'a replay of it begins anew'],
  ])('says where a run that is %s has got to, and who resumes', (status, then) => {
    const explained = explain({
      row: row({ status, reason: 'no', starts: [start()], nextAttemptAt: at('03:00'), checkpoint: '{"page": 7}' }),
    });
    expect(explained.checkpoint).toBe(`Its handler has saved the checkpoint {"page": 7}; ${then}.`);
    expect(explained.text).toContain(explained.checkpoint);
    expect(explain({ row: row({ status, reason: 'no' }) }).checkpoint).toBeNull();
  });

  it('says who holds it while it runs', () => {
    const explained = explain({
      row: row({
        status: 'running',
        starts: [start({ status: 'running', finishedAt: null })],
        leaseUntil: at('03:01'),
      }),
    });
    expect(explained).toMatchObject({ kind: 'running', why: null });
    expect(explained.secondStart).toContain('attempt 1 of A holds its lease until 2026-03-10T03:01:00.000Z');
    expect(explained.rerun).toContain('cancel');
  });

  it('sends whoever has a dead one to replay, and whoever asked for a manual one to run now', () => {
    expect(explain({ row: row({ status: 'dead', reason: 'attempts used up', starts: [start()] }) })).toMatchObject({
      kind: 'dead',
      why: 'It used up its attempts and waits for a person.',
      rerun: expect.stringContaining('replay("export"'),
    });
    expect(explain({ row: row({ status: 'dead', reason: 'gave up: no such customer', starts: [start()] }) }).why).toBe(
      'It is dead (gave up: no such customer) and waits for a person.',
    );
    expect(explain({ row: row({ trigger: 'manual', starts: [start()] }) }).rerun).toBe('To run it again: runNow.');
  });
});

describe('what it says about a second start', () => {
  it('is true of a job that there is not, and of a gap that another row stands for', () => {
    expect(explain({ job: null, schedule: null }).secondStart).toBe('Nothing starts for a job that is not there.');
    const gap = row({
      fireTime: at('04:15'),
      status: 'skipped',
      reason: 'missed: too old',
      gap: { from: at('01:15'), count: 4 },
    });
    expect(explain({ row: gap }).secondStart).toBe(
      'It has no row of its own: that of 2026-03-10T04:15:00.000Z stands for it, and what is decided is not claimed.',
    );
    expect(explain({ row: gap, fireTime: at('04:15') }).secondStart).toContain('the row is there');
    expect(explain().secondStart).toContain('Nothing has been claimed for it');
  });
});

describe('what it says about running it again', () => {
  const cancelled = row({ status: 'cancelled', reason: 'discarded: stale' });
  const skipped = row({ status: 'skipped', reason: 'skipped by ops', requestedBy: 'ops' });

  it.each<[string, string, Partial<ExplanationFacts>]>([
    [
      'replay',
      'To run it again: replay("export", new Date("2026-03-10T02:15:00.000Z"), { by });',
      { row: { ...cancelled, starts: [start({ status: 'cancelled' })] } },
    ],
    ['backfill', 'To run this period after all: SchedulerService.backfill("export", ', { row: cancelled }],
    [
      'unskip',
      'To run it after all: unskip("export", new Date("2026-03-10T02:15:00.000Z"), { by }).',
      { row: skipped, now: at('02:00') },
    ],
    ['backfill', 'To run this period after all: SchedulerService.backfill("export", ', { row: skipped }],
    [
      'backfill',
      'To run this period after all: SchedulerService.backfill("export", ',
      { job: job({ effectiveFrom: at('02:30') }) },
    ],
    [
      'of a removed job nothing',
      'Nothing of it runs any more: the job was removed. To run it all the same, make the job again first (JobRegistry.add).',
      { row: skipped, job: job({ removedAt: at('02:30') }) },
    ],
    [
      'of a removed job nothing, dead or not',
      'Nothing of it runs any more: the job was removed.',
      { row: row({ status: 'dead', starts: [start()] }), job: job({ removedAt: at('02:30') }) },
    ],
    [
      'of a removed job nothing, done or not',
      'Nothing of it runs any more: the job was removed.',
      { row: row({ starts: [start()] }), job: job({ removedAt: at('02:30') }) },
    ],
    [
      'of a removed job nothing, waiting or not',
      'Nothing needs to be done: it will be cancelled, for the job was removed.',
      { row: row({ status: 'failed', starts: [start()] }), job: job({ removedAt: at('02:30') }) },
    ],
    [
      'elsewhere, of what was decided under another name',
      'It was decided as "nightly": look there, with explain("nightly", new Date("2026-03-10T02:15:00.000Z")). A backfill of "export" leaves it alone.',
      { row: row({ status: 'skipped', reason: 'decided as nightly' }) },
    ],
    [
      'elsewhere, of what ran under another name',
      'It was decided as "nightly": look there, with explain("nightly", ',
      { elsewhere: 'nightly', job: job({ decidedUntil: at('02:30') }) },
    ],
    [
      'elsewhere, of what ran under another name and was skipped under this one',
      'It was decided as "nightly": look there',
      { elsewhere: 'nightly', row: skipped },
    ],
    ['here, of what ran here as well', '{ replay: true }', { elsewhere: 'nightly', row: row({ starts: [start()] }) }],
    [
      'of a former name a replay',
      'To run it again: replay("export", new Date("2026-03-10T02:15:00.000Z"), { by });',
      { row: row({ starts: [start()] }), job: job({ yieldsTo: 'invoices' }) },
    ],
    [
      'of a former name a backfill of the new one',
      'To run this period after all: SchedulerService.backfill("invoices", new Date("2026-03-10T02:15:00.000Z"), ',
      { row: skipped, job: job({ yieldsTo: 'invoices' }) },
    ],
    [
      'a later backfill',
      'To run this period after all, when its time has come: SchedulerService.backfill("export", ',
      { job: job({ effectiveFrom: at('02:30') }), now: at('02:00') },
    ],
  ])('is %s: %s', (_verb, advice, changes) => {
    expect(explain(changes).rerun).toContain(advice);
  });
});

describe('of a planned time that did not run says why', () => {
  const paused = { by: 'ops', reason: 'migration', since: at('01:00'), until: null };
  const queued = row({ status: 'queued', nextAttemptAt: at('02:16') });

  it.each<[ExplanationKind, string, Partial<ExplanationFacts>]>([
    ['unknown job', 'There is no job "export", and no row for it.', { job: null, schedule: null }],
    [
      'no occurrence',
      "It is no fire time of the job's schedule. The nearest are before it 2026-03-10T01:15:00.000Z and after it 2026-03-10T03:15:00.000Z.",
      { schedule: { fires: false, before: at('01:15'), after: at('03:15') } },
    ],
    [
      'no occurrence',
      'schedule. The nearest is after it: 2026-03-10T03:15:00.000Z.',
      { schedule: { fires: false, before: null, after: at('03:15') } },
    ],
    [
      'no occurrence',
      'schedule. The nearest is before it: 2026-03-10T01:15:00.000Z.',
      { schedule: { fires: false, before: at('01:15'), after: null } },
    ],
    [
      'no occurrence',
      'schedule, for its calendar leaves it out (exclude: 2026-03-10). The nearest',
      { schedule: { fires: false, leftOutBy: 'exclude: 2026-03-10', before: at('01:15'), after: null } },
    ],
    [
      'no occurrence',
      "It is no fire time of the job's schedule. It has none.",
      { schedule: { fires: false, before: null, after: null } },
    ],
    [
      'before the schedule',
      'The schedule holds from 2026-03-10T02:30:00.000Z on; what came before is never due.',
      { job: job({ effectiveFrom: at('02:30') }) },
    ],
    ['not due yet', "It is due in 15m, by the database's clock.", { now: at('02:00') }],
    [
      'not due yet',
      "It is due in 15m, by the database's clock. Its flag exports is off.",
      { now: at('02:00'), job: job({ flagIsOff: true }) },
    ],
    [
      'undecided',
      'It is due and has no row yet: everything is decided up to 2026-03-10T02:00:00.000Z, and this is later. The claim, or the missed policy, decides next.',
      {},
    ],
    [
      'undecided',
      'The job is paused since 2026-03-10T01:00:00.000Z by ops (migration), until somebody resumes it.',
      { job: job({ paused }) },
    ],
    [
      'undecided',
      'no live instance knows the job. When one starts, the missed policy decides.',
      { job: job({ instances: 0 }) },
    ],
    ['undecided', 'the job was removed', { job: job({ removedAt: at('02:00') }) }],
    ['undecided', 'decided as "new-name". Explain that one.', { job: job({ yieldsTo: 'new-name' }) }],
    [
      'undecided',
      'its history was dropped, or it was decided under another name or schedule',
      { job: job({ decidedUntil: at('02:30') }) },
    ],
    ['skipped', 'It was skipped: flag off: exports.', { row: row({ status: 'skipped', reason: 'flag off: exports' }) }],
    [
      'skipped',
      'It was skipped by ops: holiday.',
      { row: row({ status: 'skipped', reason: 'skipped by ops: holiday', requestedBy: 'ops' }) },
    ],
    [
      'skipped',
      'It was skipped: missed: too old. One row, of 2026-03-10T04:15:00.000Z, says so for 4 occurrences from 2026-03-10T01:15:00.000Z on.',
      {
        row: row({
          fireTime: at('04:15'),
          status: 'skipped',
          reason: 'missed: too old',
          gap: { from: at('01:15'), count: 4 },
        }),
      },
    ],
    [
      'cancelled',
      'It was cancelled: cancelled by ops.',
      { row: row({ status: 'cancelled', reason: 'cancelled by ops' }) },
    ],
    ['waiting', 'It waits for its start. The job is disabled.', { row: queued, job: job({ enabled: false }) }],
    ['waiting', 'It waits for its start. Its flag exports is off.', { row: queued, job: job({ flagIsOff: true }) }],
    [
      'waiting',
      'It waits for its start: the run of 2026-03-10T02:00:00.000Z is under way on B.',
      { row: queued, inTheWay: { fireTime: at('02:00'), instanceId: 'B' } },
    ],
    [
      'waiting',
      'It waits for its start, but no live instance knows the job.',
      { row: queued, job: job({ instances: 0 }) },
    ],
    ['waiting', 'It waits for its start: for an instance with room for it.', { row: queued }],
    [
      'waiting',
      'It waits for its start, but the job was removed: it will be cancelled.',
      { row: queued, job: job({ removedAt: at('02:30'), instances: 0 }) },
    ],
    [
      'waiting',
      'Its last attempt ended failed, and it waits for the next, at 2026-03-10T03:05:00.000Z.',
      { row: row({ status: 'failed', nextAttemptAt: at('03:05') }) },
    ],
  ])('%s: %s', (kind, why, changes) => {
    const explained = explain(changes);
    expect(explained.kind).toBe(kind);
    expect(explained.why).toContain(why);
    expect(explained.text).toContain('Runners started for it: none.');
    expect(explained.overlap).toBe('It overlapped nothing: it was not started.');
  });
});
