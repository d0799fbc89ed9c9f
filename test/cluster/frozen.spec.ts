import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Cluster } from './harness/cluster.js';
import { everyTenSeconds } from './harness/crons.js';
import { eventually } from './harness/eventually.js';
import type { ReplicaJob, Step } from './replica/settings.js';

describe('a replica that is frozen past its leases, replaced and thawed', () => {
  let cluster: Cluster;
  beforeEach(async () => void (cluster = await Cluster.create()));
  afterEach(() => cluster.end());

  it('G3 G4 changes nothing, wherever it stood: between two effects, inside one, or before its completion', async () => {
    const freeze: Step = { freezeTogether: 3 };
    const handlers: Record<string, { frozen: Step[]; next: Step[] }> = {
      'between-two-effects': {
        // It would stand at this gate if its effect were begun.
        frozen: [{ receipt: 'a' }, freeze, { receipt: 'b', inside: [{ gate: 'b' }, { effect: 'b' }] }],
        next: [{ receipt: 'a' }, { gate: 'taken over' }, { receipt: 'b' }],
      },
      'inside-an-effect': {
        frozen: [{ receipt: 'a' }, { receipt: 'b', inside: [{ effect: 'b' }, freeze] }],
        next: [{ receipt: 'a' }, { receipt: 'b' }, { gate: 'taken over' }],
      },
      'before-its-completion': {
        frozen: [{ receipt: 'a' }, { receipt: 'b' }, freeze],
        next: [{ receipt: 'a' }, { receipt: 'b' }, { gate: 'taken over' }],
      },
    };
    const cron = await everyTenSeconds(cluster.ledger);
    const jobs = (steps: (name: string) => Step[]): ReplicaJob[] =>
      Object.keys(handlers).map((name) => ({ name, cron, steps: steps(name) }));

    const sleeper = await cluster.start('sleeper', {
      jobs: jobs((name) => [{ gate: 'begin' }, ...handlers[name]!.frozen]),
    });
    const begun = await Promise.all(Object.keys(handlers).map((jobName) => sleeper.atGate('begin', { jobName })));
    const heir = await cluster.start('heir', { jobs: jobs((name) => handlers[name]!.next) });
    for (const at of begun) sleeper.open('begin', at);
    await sleeper.freezing();

    // Also inside the effect whose transaction the frozen process holds open.
    const takenOver = await Promise.all(
      begun.map(({ jobName, fireTime }) => heir.atGate('taken over', { jobName, fireTime, attempt: 2 })),
    );

    sleeper.thaw();
    await Promise.all(begun.map((at) => sleeper.event('run.refused', at)));
    for (const at of takenOver) {
      expect(await cluster.ledger.run(at)).toMatchObject({
        status: 'running',
        attempt: 2,
        claimedBy: heir.instanceId,
        finishedAt: null,
      });
      heir.open('taken over', at);
    }
    await Promise.all(takenOver.map((at) => heir.event('run.completed', at)));

    expect(sleeper.heard('run.completed')).toEqual([]);
    const attempts: Record<string, unknown> = {};
    for (const at of takenOver) {
      expect(await cluster.ledger.run(at)).toMatchObject({ status: 'done', attempt: 2, claimedBy: heir.instanceId });
      const receipts = (await cluster.ledger.receipts(at)).map(({ entity, attempt }) => [entity, attempt]);
      const effects = (await cluster.ledger.effects(at.jobName, at.fireTime)).map(({ entity, attempt }) => [
        entity,
        attempt,
      ]);
      expect(effects).toEqual(receipts);
      attempts[at.jobName] = receipts;
    }
    expect(attempts).toEqual({
      'between-two-effects': [
        ['a', 1],
        ['b', 2],
      ],
      'inside-an-effect': [
        ['a', 1],
        ['b', 2],
      ],
      'before-its-completion': [
        ['a', 1],
        ['b', 1],
      ],
    });
  });

  it('G3 G4 an owner that was replaced while inside an effect can’t commit it, also with its transaction intact', async () => {
    const cron = await everyTenSeconds(cluster.ledger);
    const job = (steps: Step[]): ReplicaJob[] => [{ name: 'job', cron, lease: '3s', renewEvery: '1s', steps }];
    const former = await cluster.start('former', {
      jobs: job([{ gate: 'begin' }, { receipt: 'a', inside: [{ effect: 'a' }, { gate: 'inside' }] }]),
      // With its own run in hand it has no room to be its own heir.
      scheduler: { maxConcurrentRuns: 1 },
    });
    const at = await former.atGate('begin');
    const heir = await cluster.start('heir', { jobs: job([{ receipt: 'a' }]) });
    former.open('begin', at);
    await former.atGate('inside', at);

    // Right after a beat, so that the next one finds the new attempt.
    const { leaseUntil } = await cluster.ledger.run(at);
    await eventually('a beat', async () => (await cluster.ledger.run(at)).leaseUntil! > leaseUntil!);
    // Reaped, but for the reaper's other step: it would end the transaction, too.
    await cluster.database.query(
      `update job_runs set status = 'orphaned', next_attempt_at = clock_timestamp(), lease_until = clock_timestamp() where fire_time = $1`,
      [at.fireTime.toISOString()],
    );
    await heir.event('run.claimed', { ...at, attempt: 2 });
    await eventually('the new attempt to wait for the receipt of the former', async () => {
      const waiting = await cluster.database.query(
        `select from pg_stat_activity where wait_event_type = 'Lock' and query like '%receipt_begin%'`,
      );
      return waiting.length === 1;
    });
    // Its heartbeat is alive, and refused.
    expect(await former.event('lease.lost', at)).toMatchObject({ cause: 'taken over' });
    former.open('inside', at);

    await former.event('run.refused', at);
    await heir.event('run.completed', { ...at, attempt: 2 });
    expect(await cluster.ledger.effects('job', at.fireTime)).toMatchObject([{ replica: 'heir', attempt: 2 }]);
    expect(await cluster.ledger.receipts(at)).toMatchObject([{ attempt: 2, claimedBy: heir.instanceId }]);
    expect(await cluster.ledger.run(at)).toMatchObject({ status: 'done', attempt: 2 });
  });
});
