import { describe, expect, it } from '@jest/globals';
import type { SchedulerFact } from '../../lib/observe/scheduler-event.js';
import { wordingOf } from '../../lib/observe/wording.js';

const FROM = new Date('2026-03-10T02:15:00Z');
const UNTIL = new Date('2026-03-12T02:15:00Z');
const MISSED = { type: 'run.missed', jobName: 'export', from: FROM, until: UNTIL } as const;
const SPAN = 'from 2026-03-10T02:15:00.000Z to 2026-03-12T02:15:00.000Z';

describe('what the log says about what was missed, and what an operator held back', () => {
  it.each<[SchedulerFact, string, string]>([
    [
      { ...MISSED, queued: [UNTIL], recorded: 2, heldBack: 0 },
      'warn',
      `export missed occurrences ${SPAN}: 1 to be run, 2 recorded`,
    ],
    [
      { ...MISSED, queued: [], recorded: 3, heldBack: 2 },
      'warn',
      `export missed occurrences ${SPAN}: 0 to be run, 3 recorded, 2 of them as paused or disabled`,
    ],
    [
      { ...MISSED, queued: [UNTIL], recorded: 2, heldBack: 2 },
      'warn',
      `export missed occurrences ${SPAN}: 1 to be run, 2 recorded, 2 of them as paused or disabled`,
    ],
    [
      { ...MISSED, queued: [], recorded: 3, heldBack: 3 },
      'log',
      `export was held back ${SPAN}: 3 occurrences recorded as paused or disabled`,
    ],
    [
      { type: 'job.held', jobName: 'export', hold: 'disabled', since: null, until: null, by: null, reason: null },
      'warn',
      'export is disabled: what comes due is recorded, and does not run',
    ],
  ])('%j', (fact, level, text) => {
    expect(wordingOf({ at: new Date(), ...fact })).toMatchObject({ level, text });
  });
});
