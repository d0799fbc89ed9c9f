import { describe, expect, it } from '@jest/globals';
import { alertOf } from '../../lib/observe/alert-delivery.js';
import { databaseTrouble } from '../../lib/errors/database-trouble.js';
import type { SchedulerEvent, SchedulerFact } from '../../lib/observe/scheduler-event.js';

const AT = new Date('2026-11-29T12:00:00Z');
const FIRE_TIME = new Date('2026-11-29T02:15:00Z');
const RUN = { jobName: 'export', fireTime: FIRE_TIME, attempt: 2 };
const ERROR = { name: 'Error', message: 'no', stack: null };
const alert = (fact: SchedulerFact) => alertOf({ at: AT, ...fact } as SchedulerEvent);
const trouble = (code: string) => databaseTrouble({ code });
const failed = (failures: number, code?: string): SchedulerFact => ({
  type: 'loop.failed',
  loop: 'ticker',
  error: ERROR,
  failures,
  trouble: code ? trouble(code) : null,
});

describe('an event that is an alert', () => {
  it.each<[SchedulerFact, string, string, RegExp]>([
    [
      { type: 'run.dead', ...RUN, error: ERROR },
      'run.dead',
      'critical',
      /^export of 2026-11-29T02:15:00\.000Z is dead/,
    ],
    [
      { type: 'run.overBudget', ...RUN, budgetMs: 60_000, runningMs: 61_000 },
      'run.overBudget',
      'warning',
      /longer than its budget of 1m/,
    ],
    [
      { type: 'run.stuck', ...RUN, runningMs: 61_000, told: true },
      'run.stuck',
      'critical',
      /was told to stop, and did not/,
    ],
    [{ type: 'run.abandoned', ...RUN }, 'run.abandoned', 'critical', /has not ended in all its maxRunTime/],
    [
      { type: 'run.orphaned', ...RUN, claimedBy: 'a', reason: 'the lease of a ran out', overdueMs: 5 },
      'run.orphaned',
      'warning',
      /taken from a 5ms after its lease was over \(attempt \d\): the lease of a ran out/,
    ],
    [{ type: 'lease.lost', ...RUN, cause: 'expired' }, 'lease.lost', 'warning', /lost its lease/],
    [
      { type: 'run.missed', jobName: 'export', queued: [], recorded: 3, heldBack: 1, from: FIRE_TIME, until: AT },
      'run.missed',
      'warning',
      /missed occurrences/,
    ],
    [
      { type: 'job.overdue', jobName: 'export', lastSuccessAt: FIRE_TIME, expectedWithinMs: 3_600_000 },
      'job.overdue',
      'critical',
      /overdue: no run was done within 1h; the last/,
    ],
    [
      {
        type: 'data.refused',
        jobName: 'export',
        fireTime: new Date(0),
        step: 'claim',
        error: { name: 'E', message: 'm', stack: null },
      },
      'data.refused',
      'critical',
      /refuses its data/,
    ],
    [{ type: 'job.unreadable', jobName: 'export', problem: 'p' }, 'job.unreadable', 'critical', /cannot read/],
    [
      { type: 'job.unregistered', jobs: [{ jobName: 'export', perhapsNow: null, missingHandler: null }] },
      'job.unregistered',
      'warning',
      /No live instance declares export/,
    ],
    [
      { type: 'jobs.shared', application: 'shop', other: 'billing', jobs: ['a', 'b'], handlers: [] },
      'jobs.shared',
      'warning',
      /application "billing" has the jobs a and b, too/,
    ],
    [
      { type: 'zones.differ', zones: ['Asia/Beirut'], tz: '2026a', other: 'b', otherTz: null },
      'zones.differ',
      'warning',
      /Asia\/Beirut changes otherwise .* of b \(tz unknown\)/,
    ],
    [{ type: 'clock.skewed', skewMs: 9_000, maxMs: 5_000 }, 'clock.skewed', 'warning', /clock is 9s ahead of/],
    [{ type: 'partitions.ending', until: AT, daysLeft: 3 }, 'partitions.ending', 'critical', /in 3 days/],
    [
      { type: 'database.unreachable', since: FIRE_TIME, trouble: trouble('ECONNREFUSED')! },
      'database.unreachable',
      'critical',
      /since 2026-11-29T02:15:00\.000Z/,
    ],
    [failed(8), 'loop.failing', 'critical', /ticker failed \(8 in a row\)/],
    [failed(1, '42P01'), 'loop.failing', 'critical', /run the migrations/],
    [failed(8, '25006'), 'loop.failing', 'critical', /takes no writes/],
  ])('%j is %s, %s', (fact, kind, severity, text) => {
    expect(alert(fact)).toMatchObject({
      kind,
      severity,
      at: AT,
      text: expect.stringMatching(text),
      key: expect.stringContaining(kind),
    });
  });

  it('says which run, and what is known', () => {
    expect(alert({ type: 'run.dead', ...RUN, error: ERROR })).toMatchObject({
      jobName: 'export',
      fireTime: FIRE_TIME,
      facts: { attempt: 2, error: ERROR },
      key: 'run.dead export@2026-11-29T02:15:00.000Z attempt 2',
    });
    expect(alert({ type: 'job.overdue', jobName: 'export', lastSuccessAt: null, expectedWithinMs: 1 })).toMatchObject({
      key: 'job.overdue export without a success',
    });
    expect(alert({ type: 'partitions.ending', until: AT, daysLeft: 3 })).toMatchObject({
      jobName: null,
      fireTime: null,
    });
  });

  it.each<[SchedulerFact]>([
    [{ type: 'run.completed', ...RUN, durationMs: 1 }],
    [{ type: 'run.failed', ...RUN, durationMs: 1, error: ERROR, retryInMs: 1 }],
    [{ type: 'run.skipped', jobName: 'export', fireTime: FIRE_TIME, reason: 'overlap' }],
    [{ type: 'run.missed', jobName: 'export', queued: [], recorded: 3, heldBack: 3, from: FIRE_TIME, until: AT }],
    [{ type: 'database.reachable', since: FIRE_TIME }],
    [{ type: 'clock.agrees', skewMs: 1 }],
    // Told before, or by what all loops have in common.
    [failed(1)],
    [failed(7)],
    [failed(7, '25006')],
    [failed(2, '42P01')],
    [failed(8, 'ECONNREFUSED')],
    [failed(100, '53300')],
  ])('%j is none', (fact) => {
    expect(alert(fact)).toBeNull();
  });

  it.each<[string, SchedulerFact, SchedulerFact, boolean]>([
    [
      'another attempt that died',
      { type: 'run.dead', ...RUN, error: ERROR },
      { type: 'run.dead', ...RUN, attempt: 3, error: ERROR },
      false,
    ],
    ['a loop that fails still', failed(8), failed(9), true],
    [
      'a table that another loop misses',
      failed(1, '42P01'),
      { ...failed(1, '42P01'), loop: 'reaper' } as SchedulerFact,
      true,
    ],
    [
      'another loop that fails for no known reason',
      failed(8),
      { ...failed(8), loop: 'reaper' } as SchedulerFact,
      false,
    ],
    [
      'two applications, told by the other',
      { type: 'jobs.shared', application: 'shop', other: 'billing', jobs: ['a'], handlers: [] },
      { type: 'jobs.shared', application: 'billing', other: 'shop', jobs: ['a'], handlers: [] },
      true,
    ],
    [
      'a clock a little worse',
      { type: 'clock.skewed', skewMs: 6_000, maxMs: 5_000 },
      { type: 'clock.skewed', skewMs: 7_000, maxMs: 5_000 },
      true,
    ],
    [
      'a clock on the other side',
      { type: 'clock.skewed', skewMs: 6_000, maxMs: 5_000 },
      { type: 'clock.skewed', skewMs: -6_000, maxMs: 5_000 },
      false,
    ],
  ])('%s is the same fact, or not (%#)', (_what, one, other, same) => {
    expect(alert(one)!.key === alert(other)!.key).toBe(same);
  });
});
