import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { DueOccurrence } from '../../lib/runs/claim.js';
import { notOffered, policyCases, type PolicyCase } from '../support/policy-cases.js';
import { aDue } from '../support/due.js';
import { openStores, secondsAgo, type Stores } from '../support/stores.js';

let stores: Stores;

beforeAll(async () => {
  stores = await openStores();
});
afterAll(() => stores.close());

/** The policies of the cases in our words. */
const OURS: Readonly<Record<string, Partial<DueOccurrence>>> = {
  allow: { overlap: 'allow' },
  skip: { overlap: 'forbid' },
  replace: { overlap: 'replace' },
  queueOne: { overlap: 'queue', queueLimit: 1 },
  queueAll: { overlap: 'queue' },
};

const cases = policyCases().filter((each) => each.kind === 'overlap-buffer' && notOffered(each) === null);

describe('the table of overlapping occurrences, judged by the claim itself', () => {
  it.each(cases.map((each): [string, PolicyCase] => [each.id, each]))(
    '%s',
    async (id, { buffer, running, expect: wanted }) => {
      // Slots of a case are moments that have passed; the run in the way began before them.
      const moment = (slot: number) => secondsAgo(20 - slot);
      const slots = new Map(buffer.map(({ slot }) => [moment(slot).getTime(), slot]));
      if (running) {
        await stores.test.query(
          `insert into job_runs (job_name, fire_time, status, trigger, claimed_by, attempt, started_at, lease_until)
         values ($1, $2, 'running', 'schedule', 'A', 1, $2, now() + interval '1 minute')`,
          [id, moment(0)],
        );
      }
      const occurrences = buffer.map(({ slot, overlap }) => aDue(id, moment(slot), OURS[overlap]));
      const { answers } = await stores.claims.claimDue(occurrences, 'B');
      const slotsOf = (verdict: string) =>
        answers.filter((answer) => answer.verdict === verdict).map(({ fireTime }) => slots.get(fireTime.getTime()));
      const told = await stores.test.query(
        'select from job_runs where job_name = $1 and cancel_requested_at is not null',
        [id],
      );
      const stopped = told.length > 0 ? { stopRunning: 'cancel' } : {};
      expect({
        startNow: slotsOf('claimed'),
        stillQueued: [...slotsOf('waiting'), ...slotsOf('queued')],
        skipped: slotsOf('skipped'),
        ...stopped,
      }).toEqual(wanted);
    },
  );
});
