import { Injectable, Logger, type LoggerService } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { map, tap } from 'rxjs';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import {
  CronRun,
  DistributedCron,
  DistributedSchedulerModule,
  ReceiptService,
  SchedulerEvents,
  type SchedulerEvent,
} from '../../lib/index.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { closeApps, nextEvent, nextRun, startApp } from './support/apps.js';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterEach(closeApps);
afterAll(() => database.drop());

@Injectable()
class Invoices {
  constructor(private readonly receipts: ReceiptService) {}

  @DistributedCron('* * * * * *', { name: 'invoices', maxAttempts: 2, backoff: 50, overlap: 'allow' })
  async run({ attempt }: CronRun) {
    await this.receipts.once('4711', (manager) => manager.query('select').then(() => {}));
    if (attempt === 1) throw new Error('after the receipt');
  }
}

describe('SchedulerEvents', () => {
  it('tell the story of each run in its order', async () => {
    const app = await startApp(database, { providers: [Invoices] });
    const events: SchedulerEvent[] = [];
    app.get(SchedulerEvents).subscribe((event) => events.push(event));
    const { fireTime } = await nextEvent(app, 'run.completed', ({ attempt }) => attempt === 2);
    const story = events.filter((event) => 'fireTime' in event && event.fireTime.getTime() === fireTime.getTime());
    expect(story.map((event) => [event.type, (event as { attempt: number }).attempt])).toEqual([
      ['run.claimed', 1],
      ['run.started', 1],
      ['receipt.written', 1],
      ['run.failed', 1],
      ['run.claimed', 2],
      ['run.started', 2],
      ['receipt.duplicate', 2],
      ['run.completed', 2],
    ]);
    expect(story.every(({ at }) => at instanceof Date)).toBe(true);
    expect(events.filter((event) => 'fireTime' in event && !(event.fireTime instanceof Date))).toEqual([]);
  });

  it('end when the application has stopped', async () => {
    const app = await startApp(database, { providers: [Invoices] });
    const types: string[] = [];
    const ended = new Promise<void>((resolve) =>
      app.get(SchedulerEvents).subscribe({ next: ({ type }) => types.push(type), complete: resolve }),
    );
    await app.close();
    await ended;
    expect(types.at(-1)).toBe('scheduler.stopped');
  });
});

describe('a listener that throws', () => {
  const throws = () => {
    throw new Error('a listener’s mistake');
  };

  const LISTENERS: ((events: SchedulerEvents) => unknown)[] = [
    (events) => events.subscribe(throws),
    (events) => events.subscribe({ next: throws }),
    (events) => events.of('run.started').subscribe(throws),
    (events) => events.pipe(map(throws)).subscribe(),
    (events) => events.of('run.completed').pipe(tap(throws)).subscribe(),
    (events) =>
      events
        .pipe(
          map((event) => event),
          tap(throws),
        )
        .subscribe({ error: throws }),
    (events) => events.subscribe({ complete: throws }),
    (events) => events.subscribe(async () => throws()),
    (events) => events.of('run.completed').subscribe({ next: async () => throws() }),
  ];

  it('is logged, however it throws, and hurts nobody', async () => {
    const app = await startApp(database, { providers: [Invoices] });
    const errors: unknown[] = [];
    Logger.overrideLogger({ log: () => {}, warn: () => {}, error: (message: unknown) => errors.push(message) });
    const before: string[] = [];
    const after: string[] = [];
    const events = app.get(SchedulerEvents);
    events.subscribe(({ type }) => before.push(type));
    for (const listen of LISTENERS) listen(events);
    events.subscribe(({ type }) => after.push(type));
    await nextRun(app, 'invoices');
    await nextRun(app, 'invoices');
    await app.close();
    expect(after).toEqual(before);
    expect(after.at(-1)).toBe('scheduler.stopped');
    expect(new Set(errors)).toEqual(new Set(['A listener of SchedulerEvents threw']));
    expect(errors.length).toBeGreaterThanOrEqual(LISTENERS.length);
  });
});

describe('losing a claim', () => {
  it('is silent: what two applications on one database tell together is each occurrence once', async () => {
    @Injectable()
    class Each {
      @DistributedCron('* * * * * *', { name: 'each-second' })
      run() {}
    }
    const lines: string[] = [];
    const write = (message: unknown) => lines.push(String(message));
    const logger: LoggerService = { log: write, warn: write, error: write, debug: write };
    const apps = await Promise.all(
      [1, 2].map(async () => {
        const scheduler = DistributedSchedulerModule.forRoot({ connection: database.url, migrate: true });
        const app = await Test.createTestingModule({ imports: [scheduler], providers: [Each] })
          .setLogger(logger)
          .compile();
        return app.init();
      }),
    );
    const events: SchedulerEvent[] = [];
    lines.length = 0;
    for (const app of apps) app.get(SchedulerEvents).subscribe((event) => events.push(event));
    await new Promise<void>((resolve) => {
      let completed = 0;
      for (const app of apps)
        app
          .get(SchedulerEvents)
          .of('run.completed')
          .subscribe(() => ++completed === 4 && resolve());
    });
    const whileRunning = [...events];
    const linesWhileRunning = [...lines];
    await Promise.all(apps.map((app) => app.close()));
    for (const type of ['run.claimed', 'run.started', 'run.completed'] as const) {
      const times = events
        .filter((event) => event.type === type)
        .map((event) => (event as { fireTime: Date }).fireTime.getTime());
      expect(new Set(times).size).toBe(times.length);
    }
    expect(new Set(whileRunning.map(({ type }) => type))).toEqual(
      new Set(['run.claimed', 'run.started', 'run.completed']),
    );
    expect(
      linesWhileRunning.every(
        (line) => /^each-second of .+ (started|done) /.test(line) || / attempt 1 started /.test(line),
      ),
    ).toBe(true);
  });
});
