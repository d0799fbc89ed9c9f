import { Injectable } from '@nestjs/common';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { createServer } from 'node:net';
import {
  ALERT_SINK,
  CronRun,
  DistributedCron,
  EffectNotDone,
  InvalidOptionsError,
  SchedulerError,
  ReceiptService,
  SchedulerEvents,
  SchedulerService,
  type Alert,
  type OnceExternalOptions,
  type SchedulerEvent,
} from '../../lib/index.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { closeApps, nextEvent, startApp } from './support/apps.js';
import { Receiver } from '../support/receiver.js';

let database: TestDatabase;
let receiver: Receiver;
let url: string;
beforeAll(async () => void (database = await createTestDatabase()));
beforeEach(async () => {
  receiver = new Receiver();
  url = await receiver.listen();
});
afterEach(async () => {
  await closeApps();
  await receiver.close();
});
afterAll(() => database.drop());

type Post = (entity: string, options?: Partial<OnceExternalOptions>) => Promise<unknown>;
type Work = (post: Post, run: CronRun, receipts: ReceiptService) => unknown;

async function charge(entity: string, key: string, signal: AbortSignal): Promise<unknown> {
  const response = await fetch(`${url}/${entity}`, { method: 'POST', headers: { 'Idempotency-Key': key }, signal });
  if (response.status === 402) throw new EffectNotDone('card declined');
  if (!response.ok) throw new Error(`status ${response.status}`);
  return response.json();
}

/** An application whose job does this, at one occurrence alone. */
async function appWith(name: string, policy: 'park' | 'resend', work: Work, maxAttempts = 3) {
  const alerts: Alert[] = [];
  const events: SchedulerEvent[] = [];
  let first: number | undefined;
  @Injectable()
  class Job {
    constructor(private readonly receipts: ReceiptService) {}

    @DistributedCron('* * * * * *', { name, maxAttempts, backoff: 20, overlap: 'allow' })
    async run(run: CronRun) {
      first ??= run.fireTime.getTime();
      if (run.fireTime.getTime() !== first) return;
      const post: Post = (entity, options) =>
        this.receipts.onceExternal(entity, (key, signal) => charge(entity, key, signal), {
          inDoubt: policy,
          ...options,
        });
      await work(post, run, this.receipts);
    }
  }
  @Injectable()
  class Listener {
    constructor(told: SchedulerEvents) {
      told.subscribe((event) => {
        if ('fireTime' in event && event.fireTime.getTime() === first) events.push(event);
      });
    }
  }
  const sink = { provide: ALERT_SINK, useValue: { alert: (alert: Alert) => void alerts.push(alert) } };
  const app = await startApp(database, { providers: [Job, Listener, sink] });
  return {
    app,
    alerts,
    service: app.get(SchedulerService),
    told: (type: SchedulerEvent['type']) => events.filter((event) => event.type === type),
    fireTime: () => new Date(first!),
    ended: (type: 'run.completed' | 'run.dead' | 'run.failed', attempt: number) =>
      nextEvent(app, type, (event) => event.fireTime.getTime() === first && event.attempt === attempt),
  };
}

const receipts = (jobName: string) =>
  database.query(
    `select entity, state, attempt, result, error ->> 'message' as error, resolved_by from receipts where job_name = $1 order by entity`,
    [jobName],
  );

describe('ReceiptService.onceExternal', () => {
  it('makes the call at the first attempt, and gives its answer at the second', async () => {
    const outcomes: unknown[] = [];
    const { ended } = await appWith('answered', 'park', async (post, run) => {
      outcomes.push(await post('a'));
      if (run.attempt === 1) throw new Error('again');
    });
    await ended('run.completed', 2);
    const answer = { id: expect.stringMatching(/^ch_/) };
    expect(outcomes).toEqual([
      { applied: true, inDoubt: false, result: answer },
      { applied: false, inDoubt: false, result: answer },
    ]);
    expect(receiver.countOf('a')).toEqual({ taken: 1, acted: 1 });
    expect(await receipts('answered')).toMatchObject([{ entity: 'a', state: 'done', attempt: 1, result: answer }]);
  });

  it('gives the call the key of run.idempotencyKey, which every attempt has', async () => {
    const keys: string[] = [];
    receiver.answer = (response) => response.socket!.destroy();
    const { ended } = await appWith('keys', 'resend', async (post, run) => {
      keys.push(run.idempotencyKey('a'), run.idempotencyKey('a', 'mail'));
      if (run.attempt < 3) await post('a');
    });
    await ended('run.completed', 3);
    expect(new Set(receiver.taken.map(({ key }) => key))).toEqual(new Set([keys[0]]));
    expect(keys[1]).not.toBe(keys[0]);
    expect(keys).toEqual([keys[0], keys[1], keys[0], keys[1], keys[0], keys[1]]);
    expect(keys[0]).toMatch(/^[\w-]{43}$/);
  });

  it('parks a call that was cut off, throws what it threw, and goes on with the others at the next attempt', async () => {
    receiver.answer = (response, { entity }) => (entity === 'b' ? response.socket!.destroy() : response.end('{}'));
    const outcomes: unknown[][] = [];
    const { ended, alerts, service, fireTime } = await appWith('parked', 'park', async (post) => {
      const own: unknown[] = [];
      outcomes.push(own);
      for (const entity of ['a', 'b', 'c']) own.push(await post(entity));
    });
    await ended('run.completed', 2);
    const { applied, inDoubt } = { applied: false, inDoubt: false };
    expect(outcomes[1]).toMatchObject([
      { applied, inDoubt },
      { applied, inDoubt: true, result: undefined },
      { applied: true, inDoubt },
    ]);
    expect(['a', 'b', 'c'].map((entity) => receiver.countOf(entity).taken)).toEqual([1, 1, 1]);

    const [found, ...others] = await service.inDoubt({ jobName: 'parked' });
    expect(others).toEqual([]);
    expect(found).toMatchObject({
      entity: 'b',
      effect: 'default',
      attempt: 1,
      why: 'call failed',
      error: { message: 'fetch failed' },
      idempotencyKey: receiver.taken[1]!.key,
    });
    // A sweep may find what the test before has left, too.
    expect(alerts.filter(({ kind, jobName }) => kind === 'effect.inDoubt' && jobName === 'parked')).toMatchObject([
      {
        severity: 'critical',
        jobName: 'parked',
        text: expect.stringMatching(/b \(default\) is in doubt and waits for a person .*: TypeError: fetch failed/),
      },
    ]);
    expect((await service.explain('parked', fireTime())).text).toMatch(
      /In doubt.*: the call for b \(default, attempt 1\)\..*resolveInDoubt/,
    );

    const which = { jobName: 'parked', fireTime: fireTime(), entity: 'b' };
    await service.resolveInDoubt(which, 'done', { by: 'anna', reason: 'the provider has it', answer: { id: 'ch_b' } });
    expect(await service.inDoubt({ jobName: 'parked' })).toEqual([]);
    expect(await receipts('parked')).toMatchObject([
      {},
      { entity: 'b', state: 'done', result: { id: 'ch_b' }, resolved_by: 'anna' },
      {},
    ]);
    expect((await service.explain('parked', fireTime())).inDoubt).toEqual([]);
  });

  it('makes a call again under its key where it is to be resent, and the receiver acts once', async () => {
    receiver.answer = (response) =>
      receiver.taken.length === 1 ? response.socket!.destroy() : response.end('{"id":"second"}');
    const outcomes: unknown[] = [];
    const { ended, told, service } = await appWith('resent', 'resend', async (post) => outcomes.push(await post('a')));
    await ended('run.completed', 2);
    expect(outcomes).toEqual([{ applied: true, inDoubt: false, result: { id: 'second' } }]);
    expect(receiver.countOf('a')).toEqual({ taken: 2, acted: 1 });
    expect(told('effect.resent')).toMatchObject([{ attempt: 2, entity: 'a' }]);
    expect(await service.inDoubt({ jobName: 'resent' })).toEqual([]);
  });

  it.each<[string, () => void, Partial<OnceExternalOptions>]>([
    [
      'throws EffectNotDone',
      () =>
        (receiver.answer = (response) =>
          receiver.taken.length === 1 ? response.writeHead(402).end() : response.end('{}')),
      {},
    ],
    [
      'is known by notDone',
      () =>
        (receiver.answer = (response) =>
          receiver.taken.length === 1 ? response.writeHead(503).end() : response.end('{}')),
      { notDone: (error) => (error as Error).message === 'status 503' },
    ],
  ])('makes a call that %s at the next attempt, parked or not', async (what, prepare, options) => {
    prepare();
    const { ended, told } = await appWith(what, 'park', (post) => post('a', options));
    await ended('run.completed', 2);
    expect(receiver.countOf('a').taken).toBe(2);
    expect(told('effect.inDoubt')).toEqual([]);
    expect(await receipts(what)).toMatchObject([{ state: 'done', attempt: 2, error: null }]);
  });

  it('takes a connection that nobody accepts for not done, and an answer that notDone does not know for in doubt', async () => {
    const closed = createServer();
    await new Promise<void>((resolve) => closed.listen(0, '127.0.0.1', resolve));
    const { port } = closed.address() as { port: number };
    await new Promise((resolve) => closed.close(resolve));
    const options: OnceExternalOptions = { inDoubt: 'park' };
    const { ended } = await appWith(
      'refused',
      'park',
      async (_post, run, service) => {
        const calls = [
          service.onceExternal('nobody there', () => fetch(`http://127.0.0.1:${port}`), options),
          service.onceExternal('its question throws', () => Promise.reject(new Error('no')), {
            ...options,
            notDone: () => {
              throw new Error('what?');
            },
          }),
        ];
        await Promise.allSettled(calls);
        if (run.attempt === 1) throw new Error('again');
      },
      2,
    );
    await ended('run.completed', 2);
    expect(await receipts('refused')).toMatchObject([
      { entity: 'its question throws', state: 'in_doubt', error: 'no' },
      { entity: 'nobody there', state: 'undone', error: 'fetch failed' },
    ]);
  });

  it('makes one call for two that are asked for beside each other', async () => {
    const outcomes: unknown[] = [];
    const { ended } = await appWith('beside', 'park', async (post) =>
      outcomes.push(...(await Promise.all([post('a'), post('a'), post('a', { effect: 'other' })]))),
    );
    await ended('run.completed', 1);
    expect(outcomes).toMatchObject([{ applied: true }, { applied: false, inDoubt: false }, { applied: true }]);
    expect(receiver.taken).toHaveLength(2);
  });

  it('parks what is left open by a run that is dead, and by a person’s word makes it once more at a replay', async () => {
    receiver.answer = (response) => (receiver.taken.length <= 2 ? response.socket!.destroy() : response.end('{}'));
    const { ended, alerts, service, fireTime, app } = await appWith('dead', 'resend', (post) => post('a'), 2);
    const alerted = nextEvent(app, 'effect.inDoubt', ({ jobName }) => jobName === 'dead');
    await ended('run.dead', 2);
    expect(await alerted).toMatchObject({ entity: 'a', attempt: 2, error: { message: 'fetch failed' } });
    expect(await service.inDoubt({ jobName: 'dead' })).toMatchObject([{ entity: 'a', attempt: 2, runStatus: 'dead' }]);
    expect(alerts.filter(({ kind }) => kind === 'effect.inDoubt')).toHaveLength(1);
    await service.resolveInDoubt({ jobName: 'dead' }, 'undone', { by: 'anna', reason: 'the provider has nothing' });
    const again = ended('run.completed', 3);
    await service.replay('dead', fireTime(), { by: 'anna' });
    await again;
    expect(receiver.countOf('a')).toEqual({ taken: 3, acted: 1 });
    expect(await receipts('dead')).toMatchObject([{ state: 'done', attempt: 3 }]);
    expect(await service.actions({ jobName: 'dead' })).toMatchObject([
      { action: 'replay' },
      { action: 'resolve in doubt', actor: 'anna', reason: 'the provider has nothing' },
    ]);
  });

  it('aborts the call with the run’s signal, and does not begin one after that', async () => {
    receiver.answer = () => {};
    const thrown: Error[] = [];
    const { app, fireTime } = await appWith('cancelled', 'park', async (post) => {
      for (const entity of ['a', 'b']) await post(entity).catch((error: Error) => thrown.push(error));
    });
    await receiver.has(1);
    const cancelled = nextEvent(app, 'run.cancelled', ({ jobName }) => jobName === 'cancelled');
    await app.get(SchedulerService).cancel('cancelled', fireTime(), { by: 'anna', reason: 'wrong month' });
    await cancelled;
    expect(thrown.map(({ name }) => name)).toEqual(['CancelledError', 'CancelledError']);
    expect(receiver.taken).toHaveLength(1);
    expect(await receipts('cancelled')).toMatchObject([{ entity: 'a', state: 'in_doubt' }]);
  });

  it('keeps the answer that comes when its run is lost, and tells the handler of the loss', async () => {
    let answerNow!: () => void;
    receiver.answer = (response) => void (answerNow = () => response.end('{"id":"late"}'));
    const thrown: Error[] = [];
    const { app, service } = await appWith('late', 'park', async (_post, run, own) => {
      if (run.attempt > 1) return void (await own.onceExternal('a', () => 'again', { inDoubt: 'park' }));
      const deaf = new AbortController().signal;
      await own
        .onceExternal('a', (key) => charge('a', key, deaf), { inDoubt: 'park' })
        .catch((error: Error) => thrown.push(error));
    });
    await receiver.has(1);
    const parked = nextEvent(app, 'effect.inDoubt', ({ jobName }) => jobName === 'late');
    await database.query(
      `update job_runs set status = 'orphaned', next_attempt_at = clock_timestamp(), lease_until = clock_timestamp() where job_name = 'late' and status = 'running'`,
    );
    expect(await parked).toMatchObject({ attempt: 1, entity: 'a', error: null });
    expect(await service.inDoubt({ jobName: 'late' })).toMatchObject([{ why: 'cut off' }]);
    const written = nextEvent(app, 'receipt.written', ({ jobName }) => jobName === 'late');
    const refused = nextEvent(app, 'run.refused', ({ jobName }) => jobName === 'late');
    answerNow();
    expect(await written).toMatchObject({ attempt: 1, entity: 'a' });
    await refused;
    expect(thrown).toMatchObject([{ name: 'LeaseLostError' }]);
    expect(await service.inDoubt({ jobName: 'late' })).toEqual([]);
    expect(await receipts('late')).toMatchObject([{ state: 'done', attempt: 1, result: { id: 'late' } }]);
  });

  it('refuses what it cannot keep apart, name or understand', async () => {
    const refusals: unknown[] = [];
    const { ended } = await appWith('refusing', 'park', async (post, _run, own) => {
      const park: OnceExternalOptions = { inDoubt: 'park' };
      const asked = [
        () => own.once('a', () => own.onceExternal('b', () => 1, park)),
        () => own.once('a', () => 1).then(() => post('a')),
        () => post('c').then(() => own.once('c', () => 1)),
        () => post(''),
        () => own.onceExternal('d', () => 1, undefined as never),
        () => own.onceExternal('e', () => own.onceExternal('e', () => 1, park), { ...park, notDone: () => true }),
        () => own.onceExternal('f', undefined as never, park),
        () => own.onceExternal('d', () => 1, { inDoubt: 'ask', notDone: 1, efect: 'x' } as never),
      ];
      for (const ask of asked) refusals.push(await ask().catch((error: unknown) => error));
    });
    await ended('run.completed', 1);
    expect(refusals.map((one) => (one as SchedulerError).code)).toEqual([
      'nested-transaction',
      'mixed-receipt',
      'mixed-receipt',
      'invalid-entity',
      'invalid-options',
      'invalid-options',
      'invalid-options',
      'invalid-options',
    ]);
    expect((refusals[1] as Error).message).toBe(
      'ReceiptService.onceExternal("a") found the receipt of a once() for the same entity and effect ("default"). Tell the two apart by a name: onceExternal(entity, …, { effect: \'mail\' }).',
    );
    expect(refusals.slice(5, 7).flatMap((one) => (one as InvalidOptionsError).problems)).toEqual([
      'ReceiptService.onceExternal("e"): it was called inside its own call',
      'ReceiptService.onceExternal("f"): the call: expected a function',
    ]);
    expect((refusals[7] as InvalidOptionsError).problems).toEqual([
      'ReceiptService.onceExternal: inDoubt: expected "park" or "resend", got "ask"',
      'ReceiptService.onceExternal: notDone: expected a function of what the call threw, got 1',
      'ReceiptService.onceExternal: Unknown option "efect"; did you mean "effect"?',
    ]);
    expect(receiver.taken.map(({ entity }) => entity)).toEqual(['c']);
  });

  it('is refused outside a run', async () => {
    const app = await startApp(database, {});
    await expect(app.get(ReceiptService).onceExternal('a', () => 1, { inDoubt: 'park' })).rejects.toThrow(
      expect.objectContaining({ code: 'outside-run' }),
    );
  });
});

describe('SchedulerService.resolveInDoubt', () => {
  it('says what is wrong with what it is given, and records nothing', async () => {
    const service = (await startApp(database, {})).get(SchedulerService);
    const anna = { by: 'anna', reason: 'asked' };
    await expect(service.resolveInDoubt({}, 'done', anna)).rejects.toThrow(
      'SchedulerService.resolveInDoubt: say which, as in { jobName, fireTime, entity } or { idempotencyKey }',
    );
    await expect(service.resolveInDoubt({ limit: 1 }, 'done', anna)).rejects.toThrow(/say which/);
    await expect(service.resolveInDoubt({ jobName: 'x' }, 'sent' as never, anna)).rejects.toThrow(
      'expected "done" or "undone", got "sent"',
    );
    await expect(service.resolveInDoubt({ jobName: 'x' }, 'done', { by: 'anna' } as never)).rejects.toThrow(
      /reason: say how you found out/,
    );
    await expect(service.resolveInDoubt({ jobName: 'x' }, 'undone', { ...anna, answer: 1 })).rejects.toThrow(
      /answer: what was not done has none/,
    );
    await expect(service.resolveInDoubt({ jobNam: 'x' } as never, 'done', anna)).rejects.toThrow(
      /Unknown option "jobNam"; did you mean "jobName"/,
    );
    await expect(service.inDoubt({ limit: 0 })).rejects.toThrow(/SchedulerService.inDoubt: limit/);
    expect(await service.resolveInDoubt({ jobName: 'x' }, 'done', anna)).toEqual({ effects: [], left: 0 });
    expect(await service.actions({ jobName: 'x' })).toEqual([]);
  });
});
