import { expect, it } from '@jest/globals';
import type { SchedulerFact } from '../../lib/observe/scheduler-event.js';
import { wordingOf } from '../../lib/observe/wording.js';

const nothing = { runs: 0, pages: 0, inDoubt: 0, backfills: 0 };
const kept = (open: typeof nothing | null): SchedulerFact => ({
  type: 'partition.kept',
  name: 'job_runs_2025_01',
  until: new Date('2025-02-01T00:00:00Z'),
  open,
});

it.each<[SchedulerFact, string, string]>([
  [
    { type: 'partition.dropped', names: ['job_runs_2025_01', 'receipts_2025_01'], dead: 0 },
    'log',
    'Dropped partitions job_runs_2025_01, receipts_2025_01, older than the retention',
  ],
  [
    { type: 'partition.dropped', names: ['job_runs_2025_01'], dead: 1 },
    'warn',
    'Dropped partitions job_runs_2025_01, older than the retention, and with them 1 dead run that nobody had replayed or discarded',
  ],
  [
    kept({ ...nothing, runs: 2 }),
    'warn',
    'job_runs_2025_01 is older than the retention and is kept: open in it: 2 runs',
  ],
  [
    kept({ runs: 1, pages: 10, inDoubt: 1, backfills: 1 }),
    'warn',
    'job_runs_2025_01 is older than the retention and is kept: open in it: 1 run, 10 pages, 1 call in doubt and 1 backfill',
  ],
  [
    kept(null),
    'warn',
    'job_runs_2025_01 is older than the retention and is kept: a transaction that began before has not ended',
  ],
])('%j', (fact, level, text) => {
  expect(wordingOf({ at: new Date(), ...fact })).toEqual({ level, text });
});
