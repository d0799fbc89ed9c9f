import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { setTimeout as pause } from 'node:timers/promises';
import { Receiver } from '../support/receiver.js';
import { Cluster } from './harness/cluster.js';
import { everyTenSeconds } from './harness/crons.js';
import { eventually } from './harness/eventually.js';
import { randomFrom } from './harness/random.js';
import type { ReplicaJob, Step } from './replica/settings.js';

const POLICIES = ['park', 'resend'] as const;
type Policy = (typeof POLICIES)[number];

let cluster: Cluster;
let receiver: Receiver;
let to: string;
beforeEach(async () => {
  cluster = await Cluster.create();
  receiver = new Receiver();
  to = await receiver.listen();
});
afterEach(async () => {
  await cluster.end();
  await receiver.close();
});

const here: Step = { gate: 'here' };
const call = (inDoubt: Policy, inside: { before?: Step[]; after?: Step[] } = {}): Step => ({
  call: 'a',
  to,
  inDoubt,
  ...inside,
});
const jobsOf = (cron: string, steps: Record<string, readonly Step[]>): ReplicaJob[] =>
  Object.entries(steps).map(([name, own]) => ({ name, cron, steps: own }));

describe('a replica that is killed around a call', () => {
  it('G4 at any boundary: a parked call is never made twice, a resent one is acted upon once, and what is in doubt is said to be', async () => {
    const stands: Record<string, (policy: Policy) => Step[]> = {
      'before-the-receipt': (policy) => [here, call(policy)],
      'before-the-request': (policy) => [call(policy, { before: [here] })],
      'after-the-request': (policy) => [call(policy, { after: [here] })],
      'after-the-close': (policy) => [call(policy), here],
    };
    const each = (steps: (where: string, policy: Policy) => Step[]) =>
      Object.fromEntries(
        Object.keys(stands).flatMap((where) => POLICIES.map((policy) => [`${where} ${policy}`, steps(where, policy)])),
      );
    const cron = await everyTenSeconds(cluster.ledger);
    const victim = await cluster.start('victim', {
      jobs: jobsOf(
        cron,
        each((where, policy) => stands[where]!(policy)),
      ),
    });
    const stuck = await Promise.all(Object.keys(each(() => [])).map((jobName) => victim.atGate('here', { jobName })));
    const heir = await cluster.start('heir', {
      jobs: jobsOf(
        cron,
        each((_where, policy) => [call(policy)]),
      ),
    });

    await victim.kill();
    await Promise.all(
      stuck.map(({ jobName, fireTime }) => heir.event('run.completed', { jobName, fireTime, attempt: 2 })),
    );

    const found: Record<string, unknown> = {};
    for (const at of stuck) {
      const [receipt] = await cluster.ledger.receipts(at);
      const [{ key }] = (await cluster.database.query<{ key: string }>(
        'select idempotency_key as key from receipts where job_name = $1 and fire_time = $2',
        [at.jobName, at.fireTime],
      )) as [{ key: string }];
      const taken = receiver.taken.filter((one) => one.key === key).length;
      found[at.jobName] = [receipt!.state, receipt!.attempt, taken];
      const told = heir.heard('effect.inDoubt', { jobName: at.jobName, fireTime: at.fireTime });
      expect(told).toHaveLength(receipt!.state === 'in_doubt' ? 1 : 0);
    }
    expect(found).toEqual({
      'before-the-receipt park': ['done', 2, 1],
      'before-the-receipt resend': ['done', 2, 1],
      'before-the-request park': ['in_doubt', 1, 0],
      'before-the-request resend': ['done', 2, 1],
      'after-the-request park': ['in_doubt', 1, 1],
      'after-the-request resend': ['done', 2, 2],
      'after-the-close park': ['done', 1, 1],
      'after-the-close resend': ['done', 1, 1],
    });
  });

  it('G4 ten times at any moment: every call is done and was acted upon, or is in doubt', async () => {
    const entities = ['a', 'b', 'c'];
    const steps = (inDoubt: Policy): Step[] =>
      entities.flatMap((entity): Step[] => [
        { call: entity, to, inDoubt, before: [{ pauseMs: 15 }], after: [{ pauseMs: 30 }] },
        { pauseMs: 15 },
      ]);
    const jobs: ReplicaJob[] = POLICIES.map((name) => ({
      name,
      cron: '*/2 * * * * *',
      lease: '1s',
      maxAttempts: 20,
      steps: steps(name),
    }));
    const standing = await cluster.startAll(['one', 'two', 'three'], { jobs });
    const first = await Promise.any(standing.map((replica) => replica.event('run.claimed')));
    let slot = first.fireTime.getTime() + 2_000;
    for (let seed = 1; seed <= 10; seed++) {
      const random = randomFrom(seed);
      const now = (await cluster.ledger.now()).getTime();
      slot = Math.max(slot + 2_000, Math.ceil((now + 300) / 2_000) * 2_000);
      await pause(Math.max(0, slot + 30 + random() * 250 - now));
      const owner = standing.find((replica) => replica.heard('run.started', { fireTime: new Date(slot) }).length > 0);
      const victim = owner ?? standing[Math.floor(random() * standing.length)]!;
      await victim.kill();
      const successor = cluster.fork(`successor of seed ${seed}`, { jobs });
      standing.splice(standing.indexOf(victim), 1, successor);
      await successor.ready();
    }
    const rows = await eventually('every occurrence to be done', async () => {
      const runs = (await Promise.all(POLICIES.map((name) => cluster.ledger.runs(name))))
        .flat()
        .filter(({ fireTime, status }) => fireTime.getTime() <= slot && status !== 'skipped');
      return runs.every(({ status }) => status === 'done') && runs;
    });
    const receipts = await cluster.database.query<{ jobName: Policy; state: string; key: string }>(
      `select job_name as "jobName", state, idempotency_key as key from receipts where fire_time <= $1`,
      [new Date(slot)],
    );
    expect(receipts).toHaveLength(rows.length * entities.length);
    for (const { jobName, state, key } of receipts) {
      const taken = receiver.taken.filter((one) => one.key === key).length;
      if (state === 'done') expect(taken).toBeGreaterThanOrEqual(1);
      else expect([jobName, state]).toEqual(['park', 'in_doubt']);
      if (jobName === 'park') expect(taken).toBeLessThanOrEqual(1);
    }
    // The sweep is worth nothing unless it cut runs off.
    expect(rows.some(({ attempt }) => attempt > 1)).toBe(true);
  });
});

describe('a replica that is frozen past its lease in the middle of a call, replaced and thawed', () => {
  it('G3 G4 has the answer kept that it alone knows, sends nothing twice that was parked, and changes nothing of what was sent again', async () => {
    const freeze: Step = { freezeTogether: 4 };
    const inside: Record<string, { before?: Step[]; after?: Step[] }> = {
      'before-the-request': { before: [freeze] },
      'after-the-request': { after: [freeze] },
    };
    const each = (steps: (where: string, policy: Policy) => Step[]) =>
      Object.fromEntries(
        Object.keys(inside).flatMap((where) => POLICIES.map((policy) => [`${where} ${policy}`, steps(where, policy)])),
      );
    const cron = await everyTenSeconds(cluster.ledger);
    const sleeper = await cluster.start('sleeper', {
      jobs: jobsOf(
        cron,
        each((where, policy) => [{ gate: 'begin' }, call(policy, inside[where])]),
      ),
    });
    const begun = await Promise.all(Object.keys(each(() => [])).map((jobName) => sleeper.atGate('begin', { jobName })));
    const heir = await cluster.start('heir', {
      jobs: jobsOf(
        cron,
        each((_where, policy) => [call(policy), { gate: 'taken over' }]),
      ),
    });
    for (const at of begun) sleeper.open('begin', at);
    await sleeper.freezing();
    const takenOver = await Promise.all(
      begun.map(({ jobName, fireTime }) => heir.atGate('taken over', { jobName, fireTime, attempt: 2 })),
    );
    const stateOf = async (at: { jobName: string; fireTime: Date }) => {
      const [row] = await cluster.database.query<{ state: string; attempt: number; key: string }>(
        'select state, attempt, idempotency_key as key from receipts where job_name = $1 and fire_time = $2',
        [at.jobName, at.fireTime],
      );
      return { ...row!, taken: receiver.taken.filter(({ key }) => key === row!.key).length };
    };
    for (const at of takenOver)
      expect(await stateOf(at)).toMatchObject(
        at.jobName.endsWith('park') ? { state: 'in_doubt', attempt: 1 } : { state: 'done', attempt: 2 },
      );

    sleeper.thaw();
    await Promise.all(begun.map((at) => sleeper.event('run.refused', at)));
    for (const at of takenOver) heir.open('taken over', at);
    await Promise.all(takenOver.map((at) => heir.event('run.completed', at)));

    for (const at of begun) {
      const { state, attempt, taken } = await stateOf(at);
      switch (at.jobName) {
        case 'after-the-request park':
          await sleeper.event('receipt.written', at);
          expect(await stateOf(at)).toMatchObject({ state: 'done', attempt: 1, taken: 1 });
          break;
        case 'before-the-request park':
          // It goes on in its call before anything can tell it; nobody else has made it.
          expect(attempt).toBe(1);
          expect(taken).toBeLessThanOrEqual(1);
          if (state === 'done') expect(taken).toBe(1);
          else expect(state).toBe('in_doubt');
          break;
        default:
          expect({ state, attempt }).toEqual({ state: 'done', attempt: 2 });
          expect(taken).toBeGreaterThanOrEqual(1);
          expect(taken).toBeLessThanOrEqual(2);
      }
    }
  });
});
