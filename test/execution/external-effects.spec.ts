import { describe, expect, it } from '@jest/globals';
import type { SchedulerFact } from '../../lib/observe/scheduler-event.js';
import { SchedulerEvents } from '../../lib/observe/scheduler-events.js';
import { ExternalEffects, type CallPlan } from '../../lib/receipts/external-effects.js';
import { InFlightRun, InFlightRuns } from '../../lib/runs/in-flight-runs.js';
import { monotonicNow } from '../../lib/database/clock.js';
import type { ReceiptRepository } from '../../lib/receipts/receipt.repository.js';
import { aJob } from '../support/job.js';
import { aRun } from '../support/run.js';

const KEY = { entity: 'customer-1', effect: 'mail' };

/** The service with this store, on connections that do nothing; and what it told. */
function effectsWith(store: Partial<Record<keyof ReceiptRepository, (...args: never[]) => unknown>>) {
  const events = new SchedulerEvents();
  const told: SchedulerFact['type'][] = [];
  events.subscribe(({ type }) => told.push(type));
  const runs = new InFlightRuns(events);
  const run = new InFlightRun(aRun({ leaseDeadline: monotonicNow() + 60_000 }), aJob('job', '* * * * *'));
  runs.add(run);
  const places = {
    makingSure: (_fireTime: unknown, work: () => unknown) => work(),
    alone: (statement: (manager: unknown) => unknown) => statement({}),
  };
  const opened = { kind: 'opened', idempotencyKey: 'key', again: false };
  const all = {
    openCall: async () => opened,
    closeCall: async () => 'closed',
    failCall: async () => true,
    ...store,
  };
  const effects = new ExternalEffects(runs, all as never, places as never, { of: () => 'key' } as never, events);
  const plan = <Answer>(call: CallPlan<Answer>['call']): CallPlan<Answer> => ({
    call,
    policy: 'park',
    notDone: () => false,
  });
  return { effects, run, plan, told, opened };
}

const failing = (times: number, then: unknown) => {
  let calls = 0;
  return async () => {
    if (++calls <= times) throw new Error('the database is gone');
    return then;
  };
};

describe('an answer that cannot be written', () => {
  it('is written when the database is back, and the call is not made again', async () => {
    const { effects, run, plan, told } = effectsWith({ closeCall: failing(3, 'closed') });
    let calls = 0;
    expect(
      await effects.once(
        run,
        KEY,
        plan(() => ++calls),
      ),
    ).toEqual({ applied: true, inDoubt: false, result: 1 });
    expect(calls).toBe(1);
    expect(told).toEqual(['loop.failed', 'loop.failed', 'loop.failed', 'receipt.written']);
  });

  it('is given up with the lease: the call is in doubt by its open receipt', async () => {
    const { effects, run, plan } = effectsWith({ closeCall: failing(Infinity, 'closed') });
    run.leaseDeadline = monotonicNow() + 200;
    await expect(
      effects.once(
        run,
        KEY,
        plan(() => 1),
      ),
    ).rejects.toThrow('the database is gone');
  });

  it('hides nothing that the call threw', async () => {
    const { effects, run, plan, told } = effectsWith({ failCall: failing(Infinity, true) });
    run.leaseDeadline = monotonicNow() + 200;
    await expect(
      effects.once(
        run,
        KEY,
        plan(() => Promise.reject(new Error('socket hang up'))),
      ),
    ).rejects.toThrow('socket hang up');
    expect(told).not.toContain('effect.inDoubt');
  });
});

describe('a process that was frozen after it had opened the receipt', () => {
  it('G3 does not begin the call, and takes the receipt back', async () => {
    const taken: unknown[] = [];
    const { effects, run, plan, told, opened } = effectsWith({
      openCall: async () => {
        // It wakes up when its lease is over, before any timer can tell it.
        run.leaseDeadline = monotonicNow() - 1;
        return opened;
      },
      failCall: async (...args: unknown[]) => (taken.push(args[4], args[3]), true),
    });
    let calls = 0;
    await expect(
      effects.once(
        run,
        KEY,
        plan(() => ++calls),
      ),
    ).rejects.toThrow(/lease .* is lost/);
    expect(calls).toBe(0);
    expect(taken).toMatchObject(['undone', { name: 'EffectNotDone', message: expect.stringMatching(/was not made/) }]);
    expect(told).toEqual(['lease.lost']);
  });
});

describe('two calls for one receipt', () => {
  it('that are asked for beside each other go one after the other, also when the first fails', async () => {
    const { effects, run, plan } = effectsWith({});
    let underWay = 0;
    let most = 0;
    const call = plan(async () => {
      most = Math.max(most, ++underWay);
      await new Promise((resolve) => setImmediate(resolve));
      underWay--;
      throw new Error('no');
    });
    await Promise.allSettled([1, 2, 3].map(() => effects.once(run, KEY, call)));
    expect(most).toBe(1);
    await Promise.allSettled(['a', 'b'].map((entity) => effects.once(run, { ...KEY, entity }, call)));
    expect(most).toBe(2);
  });
});
