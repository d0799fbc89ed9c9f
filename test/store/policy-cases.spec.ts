import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { notOffered, policyCases, type PolicyCase } from '../support/policy-cases.js';
import { aDue } from '../support/due.js';
import { openStores, secondsAgo, type Stores } from '../support/stores.js';

let stores: Stores;

beforeAll(async () => {
  stores = await openStores();
});
afterAll(() => stores.close());

const cases = policyCases().filter((each) => each.kind === 'overlap-buffer' && notOffered(each) === null);

describe('the table of overlapping occurrences, judged by the claim itself', () => {
  it.each(cases.map((each): [string, PolicyCase] => [each.id, each]))('%s', async (id, { buffer, running, expect: wanted }) => {
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
    const occurrences = buffer.map(({ slot, overlap }) => aDue(id, moment(slot), { overlap: overlap === 'allow' ? 'allow' : 'forbid' }));
    const { answers } = await stores.claims.claimDue(occurrences, 'B');
    const slotsOf = (verdict: string) => answers.filter((answer) => answer.verdict === verdict).map(({ fireTime }) => slots.get(fireTime.getTime()));
    expect({ startNow: slotsOf('claimed'), stillQueued: slotsOf('waiting'), skipped: slotsOf('skipped') }).toEqual(wanted);
  });
});
