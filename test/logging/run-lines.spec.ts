import { describe, expect, it } from '@jest/globals';
import type { SchedulerFact } from '../../lib/observe/scheduler-event.js';
import { wordingOf } from '../../lib/observe/wording.js';

const RUN = { jobName: 'export', fireTime: new Date('2026-03-10T02:15:00Z'), attempt: 2 };
const NO = { name: 'Error', message: 'no', stack: null };

describe('what the log says about a job’s schedule', () => {
  const JOB = { type: 'job.scheduled', jobName: 'report', schedule: '"0 3 * * *" (UTC)' } as const;
  it.each<[SchedulerFact, string]>([
    [{ ...JOB, was: null, updated: false }, 'report is scheduled as "0 3 * * *" (UTC) from now on'],
    [
      { ...JOB, was: '"0 4 * * *" (UTC)', updated: false },
      'report is scheduled as "0 3 * * *" (UTC) from now on; until now as "0 4 * * *" (UTC)',
    ],
    [{ ...JOB, was: null, updated: true }, 'report was updated; it stays scheduled as "0 3 * * *" (UTC)'],
  ])('%j', (fact, text) => {
    expect(wordingOf({ at: new Date(), ...fact })).toMatchObject({ level: 'log', text });
  });
});

describe('what the log says about a run’s time and end', () => {
  it.each<[SchedulerFact, string, string]>([
    [
      { type: 'run.overBudget', ...RUN, budgetMs: 1_200_000, runningMs: 1_200_003 },
      'warn',
      'export of 2026-03-10T02:15:00.000Z attempt 2 takes longer than its budget of 20m, and goes on',
    ],
    [
      { type: 'run.timedOut', ...RUN, limit: 'timeout', runningMs: 1 },
      'warn',
      'export of 2026-03-10T02:15:00.000Z attempt 2 has run for its timeout: its handler was told to stop',
    ],
    [
      { type: 'run.stuck', ...RUN, told: true, runningMs: 3_605_000 },
      'error',
      'export of 2026-03-10T02:15:00.000Z attempt 2 is stuck: it has run for 1h5s, was told to stop, and did not',
    ],
    [
      { type: 'run.stuck', ...RUN, told: false, runningMs: 65_000 },
      'error',
      'export of 2026-03-10T02:15:00.000Z attempt 2 is stuck: it has run for 1m5s, past its budget',
    ],
    [
      { type: 'run.stuck', ...RUN, told: false, runningMs: 65_001 },
      'error',
      'export of 2026-03-10T02:15:00.000Z attempt 2 is stuck: it has run for 1m5s, past its budget',
    ],
    [
      { type: 'run.completed', ...RUN, durationMs: 4_001.13 },
      'log',
      'export of 2026-03-10T02:15:00.000Z done in 4s at attempt 2',
    ],
    [
      { type: 'run.woundUp', ...RUN, error: null },
      'debug',
      'export of 2026-03-10T02:15:00.000Z attempt 2 has wound up after its completion',
    ],
    [
      { type: 'run.woundUp', ...RUN, error: NO },
      'warn',
      'export of 2026-03-10T02:15:00.000Z attempt 2 threw after its completion, which stands: Error: no',
    ],
    [{ type: 'loop.recovered', loop: 'schedules' }, 'log', 'The schedule follower works again'],
    [{ type: 'loop.recovered', loop: 'catch-up' }, 'log', 'The catch-up works again'],
    [
      { type: 'run.cancelled', ...RUN, reason: 'wrong month' },
      'log',
      'export of 2026-03-10T02:15:00.000Z attempt 2 ended as cancelled: wrong month',
    ],
    [
      { type: 'run.dead', ...RUN, error: NO, reason: 'attempts used up' },
      'error',
      'export of 2026-03-10T02:15:00.000Z is dead after attempt 2 and waits for a person to replay or discard it: Error: no',
    ],
    [
      { type: 'run.dead', ...RUN, error: NO, reason: 'gave up: no' },
      'error',
      'export of 2026-03-10T02:15:00.000Z is dead after attempt 2 (gave up) and waits for a person to replay or discard it: Error: no',
    ],
    [
      { type: 'page.dead', ...RUN, page: '3', error: NO, reason: 'attempts used up' },
      'error',
      'export of 2026-03-10T02:15:00.000Z, page 3 is dead after attempt 2 and waits for a person to replay or discard it: Error: no',
    ],
    [
      { type: 'effect.inDoubt', ...RUN, entity: '7', effect: 'mail', error: NO },
      'error',
      'export of 2026-03-10T02:15:00.000Z attempt 2: the call for 7 (mail) is in doubt and waits for a person to say what came of it (resolveInDoubt): Error: no',
    ],
    [
      { type: 'receipts.written', ...RUN, effect: 'default', applied: 98, skipped: 0, failed: 2 },
      'warn',
      'export of 2026-03-10T02:15:00.000Z attempt 2: 98 effects (default) done, 0 done before, 2 failed',
    ],
    [
      { type: 'policy.failed', ...RUN, option: 'retryable', error: NO },
      'error',
      "export of 2026-03-10T02:15:00.000Z attempt 2: the job's retryable function threw: Error: no",
    ],
    [
      { type: 'instance.gone', instanceId: 'pod-7', runs: 2, goneMs: 1_412 },
      'warn',
      'pod-7 is gone: its liveness lock was not there for 1s400ms, and 2 runs of it can be taken over at once',
    ],
    [
      { type: 'fastFailover.unavailable' },
      'warn',
      'fastFailover is of no use here: the database is reached through a pooler, which would hide that this process is gone. Its runs are taken over when their leases end',
    ],
    [
      { type: 'loop.blocked', forMs: 7_300.4 },
      'warn',
      'The event loop stood still for 7s300ms: look for synchronous work in a handler',
    ],
  ])('%j', (fact, level, text) => {
    expect(wordingOf({ at: new Date(), ...fact })).toMatchObject({ level, text });
  });
});

it.each<SchedulerFact>([
  { type: 'receipt.written', ...RUN, entity: '7', effect: 'default' },
  { type: 'receipt.duplicate', ...RUN, entity: '7', effect: 'default' },
  { type: 'receipts.written', ...RUN, effect: 'default', applied: 0, skipped: 100, failed: 0 },
])('the log says nothing of each receipt, of which a run may have very many: $type', (fact) =>
  expect(wordingOf({ at: new Date(), ...fact })).toBeNull(),
);
