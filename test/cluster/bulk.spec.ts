import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Cluster } from './harness/cluster.js';
import { everyTenSeconds } from './harness/crons.js';
import { eventually } from './harness/eventually.js';

const ENTITIES = 20_000;
const HALF = ENTITIES / 2;

describe('a replica that is killed in the middle of many effects', () => {
  let cluster: Cluster;
  beforeEach(async () => void (cluster = await Cluster.create()));
  afterEach(() => cluster.end());

  it('G4 is followed by one that does only what was not committed, and every effect is there once', async () => {
    const cron = await everyTenSeconds(cluster.ledger);
    const victim = await cluster.start('victim', {
      jobs: [{ name: 'bulk', cron, steps: [{ bulk: ENTITIES, gateFrom: HALF }] }],
    });
    const at = await victim.atGate('bulk', { jobName: 'bulk' });
    const effects = () => cluster.ledger.effects('bulk', at.fireTime);
    // Two batches are open; of the others all are committed.
    await eventually('the first half to be there', async () => (await effects()).length === HALF);
    const heir = await cluster.start('heir', { jobs: [{ name: 'bulk', cron, steps: [{ bulk: ENTITIES }] }] });
    await victim.kill();
    await heir.event('run.completed', { jobName: 'bulk', fireTime: at.fireTime });

    const done = await effects();
    expect(done).toHaveLength(ENTITIES);
    expect(new Set(done.map(({ entity }) => entity)).size).toBe(ENTITIES);
    const byAttempt = (attempt: number) => done.filter((effect) => effect.attempt === attempt);
    expect([byAttempt(1).length, byAttempt(2).length]).toEqual([HALF, HALF]);
    const receipts = await cluster.ledger.receipts(at);
    const shown = (rows: readonly { entity: string; attempt: number }[]) =>
      rows.map(({ entity, attempt }) => `${entity} ${attempt}`).sort();
    expect(shown(receipts)).toEqual(shown(done));
    const batches = heir.heard('receipts.written', { jobName: 'bulk', fireTime: at.fireTime });
    expect(batches.reduce((sum, { applied }) => sum + applied, 0)).toBe(HALF);
    expect(batches.reduce((sum, { skipped }) => sum + skipped, 0)).toBe(HALF);
    expect((await cluster.ledger.run(at)).earlierAttempts).toMatchObject([{ attempt: 1, status: 'orphaned' }]);
  });
});
