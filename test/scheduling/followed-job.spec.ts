import { expect, it } from '@jest/globals';
import { followedJob } from '../../lib/scheduling/followed-job.js';
import type { StoredJob } from '../../lib/store/stored-job.js';

it('a job made at run time that yields to a declared one is not scheduled: every claim would be refused', () => {
  const stored: StoredJob = {
    name: 'acme',
    cron: '0 3 * * *',
    timeZone: 'UTC',
    decidedUntil: 0,
    yieldsTo: null,
    removed: false,
    runTime: { handler: 'report', options: {}, data: undefined },
    revision: 1,
  };
  const handlers = new Map([['report', { handler: async () => {}, declaredBy: 'Reports.send' }]]);
  const kinds = [stored, { ...stored, yieldsTo: 'declared' }].map((job) => followedJob(job, undefined, handlers, {}).kind);
  expect(kinds).toEqual(['scheduled', 'none']);
});
