import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { setTimeout as pause } from 'node:timers/promises';
import { Cluster } from './harness/cluster.js';
import { eventually } from './harness/eventually.js';
import { randomFrom } from './harness/random.js';
import type { Replica } from './harness/replica.js';
import type { ReplicaJob } from './replica/settings.js';

const SEEDS = 10;

const JOB: ReplicaJob = {
  name: 'job',
  cron: '*/2 * * * * *',
  lease: '1s',
  maxAttempts: 20,
  steps: ['a', 'b', 'c'].flatMap((entity) => [{ receipt: entity, inside: [{ pauseMs: 20 }, { effect: entity }, { pauseMs: 20 }] }, { pauseMs: 20 }]),
};

describe('replicas that are killed at any moment', () => {
  let cluster: Cluster;
  beforeEach(async () => void (cluster = await Cluster.create()));
  afterEach(() => cluster.end());

  it(`B07 G4 G5 ${SEEDS} kills across an occurrence: each occurrence has a row and ends done, each effect is there once`, async () => {
    const standing = await cluster.startAll(['one', 'two', 'three'], { jobs: [JOB] });
    const first = await Promise.any(standing.map((replica) => replica.event('run.claimed')));
    let slot = first.fireTime.getTime() + 2_000;
    for (let seed = 1; seed <= SEEDS; seed++) {
      const random = randomFrom(seed);
      slot = Math.max(slot, nextSlot((await cluster.ledger.now()).getTime() + 300));
      // From a little before the claim until a little after the completion.
      await pauseUntil(slot - 50 + random() * 400);
      const owner = standing.find((replica) => replica.heard('run.started', { fireTime: new Date(slot) }).length > 0);
      const victim = owner ?? standing[Math.floor(random() * standing.length)]!;
      await victim.kill();
      standing.splice(standing.indexOf(victim), 1, cluster.fork(`successor of seed ${seed}`, { jobs: [JOB] }));
      await atLeastOneIsUp(standing);
    }

    const rows = await eventually(
      'every occurrence to be done',
      async () => {
        const runs = (await cluster.ledger.runs('job')).filter(({ fireTime }) => fireTime >= first.fireTime && fireTime.getTime() <= slot);
        return runs.length === (slot - first.fireTime.getTime()) / 2_000 + 1 && runs.every(({ status }) => status === 'done') && runs;
      },
      { seen: () => cluster.ledger.runs('job') },
    );
    for (const { fireTime } of rows) {
      const effects = await cluster.ledger.effects('job', fireTime);
      expect({ fireTime, effects: effects.map(({ entity }) => entity) }).toEqual({ fireTime, effects: ['a', 'b', 'c'] });
    }
    // The sweep is worth nothing unless it cut runs off.
    expect(rows.some(({ attempt }) => attempt > 1)).toBe(true);
  }, 120_000);

  async function pauseUntil(instant: number): Promise<void> {
    await pause(Math.max(0, instant - (await cluster.ledger.now()).getTime()));
  }
});

function nextSlot(after: number): number {
  return Math.ceil(after / 2_000) * 2_000;
}

async function atLeastOneIsUp(replicas: readonly Replica[]): Promise<void> {
  await Promise.any(replicas.map((replica) => replica.ready()));
}
