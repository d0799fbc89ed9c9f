import { describe, expect, it } from '@jest/globals';
import {
  EARLIEST_MS,
  lateness,
  occurrenceOf,
  type DeliveredTime,
  type RefusedDelivery,
} from '../../lib/operations/delivery-rules.js';
import { compileSchedule } from '../../lib/cron/schedule.js';

const SCHEDULE = compileSchedule('15 2 * * *', 'Europe/Berlin');
const MINUTE = 60_000;
const at = (text: string) => Date.parse(`2026-11-${text}Z`);
const planned = (text: string): DeliveredTime => ({ kind: 'planned', at: at(text) });
const sent = (text: string): DeliveredTime => ({ kind: 'sent', at: at(text) });
const NOW: DeliveredTime = { kind: 'now' };

describe('the occurrence that a delivery means', () => {
  it.each<[what: string, DeliveredTime, now: string, fireTime: string]>([
    ['the planned time, at once', planned('30T01:15:00'), '30T01:15:00', '30T01:15:00'],
    ['the planned time, days later', planned('27T01:15:00'), '30T01:15:00', '27T01:15:00'],
    ['the planned time, by a clock that is ahead', planned('30T01:15:00'), '30T01:14:00', '30T01:15:00'],
    ['sent at the planned time', sent('30T01:15:00'), '30T01:15:01', '30T01:15:00'],
    ['sent within its minute', sent('30T01:15:59'), '30T01:16:00', '30T01:15:00'],
    ['sent by a clock that is ahead', sent('30T01:14:57'), '30T01:15:00', '30T01:15:00'],
    ['no time, at once', NOW, '30T01:15:00', '30T01:15:00'],
    ['no time, merely late', NOW, '30T01:17:00', '30T01:15:00'],
    ['no time, by a clock that is ahead', NOW, '30T01:14:55', '30T01:15:00'],
  ])('is that of %s', (_, given, now, fireTime) => {
    expect(occurrenceOf(SCHEDULE, given, at(now), 2 * MINUTE)).toBe(at(fireTime));
  });

  it('is the nearer one of two, where neither is named and each may be meant', () => {
    const means = (expression: string, now: string) => {
      const found = occurrenceOf(compileSchedule(expression, 'UTC'), NOW, at(now), 2 * MINUTE);
      return typeof found === 'number' ? new Date(found).toISOString().slice(14, 19) : found;
    };
    expect([means('* * * * *', '30T10:00:57'), means('* * * * *', '30T10:00:54')]).toEqual(['01:00', '00:00']);
    expect([
      means('* * * * * *', '30T10:00:57'),
      means('*/10 * * * * *', '30T10:00:54'),
      means('*/10 * * * * *', '30T10:00:56'),
    ]).toEqual(['00:57', '00:50', '01:00']);
  });

  it.each<[what: string, DeliveredTime, now: string, RefusedDelivery['problem'], RegExp]>([
    [
      'a time off the grid',
      planned('30T01:16:00'),
      '30T01:16:00',
      'off the grid',
      /no fire time at 2026-11-30T01:16:00.000Z; the nearest are 2026-11-30T01:15:00.000Z and 2026-12-01T01:15:00.000Z$/,
    ],
    ['a millisecond off', { kind: 'planned', at: at('30T01:15:00') + 1 }, '30T01:16:00', 'off the grid', /nearest/],
    ['what was sent later than within a minute', sent('30T01:16:01'), '30T01:16:01', 'off the grid', /the nearest are/],
    [
      'what is to come',
      planned('30T01:15:00'),
      '30T01:13:59',
      'too early',
      /^2026-11-30T01:15:00.000Z is still 1m1s away by the database's clock; deliver it when it is due, at most 1m before$/,
    ],
    ['what was sent before its time', sent('30T01:15:00'), '30T01:13:00', 'too early', /still 2m away/],
    [
      'no time, when nothing is due',
      NOW,
      '30T01:17:01',
      'nothing is due',
      /name the time that is meant, the nearest are 2026-11-30T01:15:00.000Z and/,
    ],
  ])('is none for %s', (_, given, now, problem, why) => {
    const refused = occurrenceOf(SCHEDULE, given, at(now), 2 * MINUTE);
    expect(refused).toEqual({ problem, why: expect.stringMatching(why) });
  });

  it('is none after the end of a schedule, and that has one neighbour', () => {
    const over = compileSchedule(
      '15 2 * * *',
      'Europe/Berlin',
      'job',
      JSON.stringify({ trigger: 'external', endAt: '2026-11-30T00:00:00.000Z' }),
    );
    expect(over.isExternal).toBe(true);
    expect(occurrenceOf(over, planned('30T01:15:00'), at('30T01:15:00'), MINUTE)).toMatchObject({
      why: expect.stringMatching(/; the nearest is 2026-11-29T01:15:00.000Z$/),
    });
  });

  it('may be a minute ahead, as the page says', () => expect(EARLIEST_MS).toBe(MINUTE));
});

describe('the missed rule, about an occurrence that is delivered late', () => {
  const rules = { schedule: SCHEDULE, catchUpWindowMs: 24 * 60 * MINUTE, lateAfterMs: 2 * MINUTE, fallbackMs: null };
  const late = (minutes: number, isSuperseded = false) => ({ fireTime: 0, now: minutes * MINUTE, isSuperseded });

  it.each(['skip', 'once', 'all'] as const)('%s: runs what is merely late', (missed) => {
    expect(lateness(late(1.9, true), { ...rules, missed })).toBeNull();
  });

  it.each(['skip', 'once', 'all'] as const)('%s: records what is too old', (missed) => {
    expect(lateness(late(24 * 60), { ...rules, missed })).toBe('missed: too old');
  });

  it('begins later where the schedule itself would start it later', () => {
    const fallback = { ...rules, missed: 'skip', fallbackMs: 10 * MINUTE } as const;
    expect(lateness(late(11.9), fallback)).toBeNull();
    expect(lateness(late(12), fallback)).toBe('missed: skipped');
  });

  it('skip: records what was missed; once: unless it is the newest; all: runs it', () => {
    expect(lateness(late(2), { ...rules, missed: 'skip' })).toBe('missed: skipped');
    expect(lateness(late(2), { ...rules, missed: 'once' })).toBeNull();
    expect(lateness(late(2, true), { ...rules, missed: 'once' })).toBe('missed: superseded by a newer one');
    expect(lateness(late(2, true), { ...rules, missed: 'all' })).toBeNull();
  });
});
