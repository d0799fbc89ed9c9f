import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { Injectable, type INestApplication } from '@nestjs/common';
import { ExpressAdapter } from '@nestjs/platform-express';
import { Test } from '@nestjs/testing';
import { EXIT, runCommand } from '../../lib/cli/run-command.js';
import { HELP } from '../../lib/cli/trigger-arguments.js';
import { DistributedCron, DistributedSchedulerModule, SchedulerService, type CronRun } from '../../lib/index.js';
import { DistributedCronTriggerModule } from '../../lib/trigger/index.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';

const TOKEN = 'a-token-of-more-than-32-characters';
const SCHEMA = 'The Scheduler';

let database: TestDatabase;
let app: INestApplication;
let seen: CronRun[];
let url: string;
let directory: string;

@Injectable()
class Exports {
  @DistributedCron('* * * * *', {
    name: 'export',
    owner: 'billing',
    overlap: 'allow',
    missed: 'all',
    trigger: 'external',
  })
  export(run: CronRun): void {
    seen.push(run);
  }

  @DistributedCron('* * * * *', {
    name: 'broken',
    owner: 'billing',
    overlap: 'allow',
    missed: 'all',
    trigger: 'external',
    maxAttempts: 1,
  })
  break(): void {
    throw new Error('no');
  }
}

beforeAll(async () => {
  database = await createTestDatabase();
  directory = mkdtempSync(join(tmpdir(), 'trigger-'));
  const testing = await Test.createTestingModule({
    imports: [
      DistributedSchedulerModule.forRoot({
        connection: database.url,
        schema: SCHEMA,
        migrate: true,
        logging: false,
        pollInterval: 200,
      }),
      DistributedCronTriggerModule.forRoot({ token: TOKEN }),
    ],
    providers: [Exports],
  }).compile();
  app = testing.createNestApplication(new ExpressAdapter(), { logger: false });
  await app.listen(0, '127.0.0.1');
  url = `http://127.0.0.1:${(app.getHttpServer().address() as AddressInfo).port}/cron/`;
  await database.query(
    `update "${SCHEMA}".job_schedule set effective_from = '2020-01-01', decided_until = '2020-01-01'`,
  );
});
afterAll(async () => {
  await app.close();
  await database.drop();
  rmSync(directory, { recursive: true });
});
beforeEach(() => {
  seen = [];
});

interface Told {
  readonly code: number;
  readonly said: string;
  readonly complained: string;
}

async function command(args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<Told> {
  const said: string[] = [];
  const complained: string[] = [];
  const code = await runCommand(args, {
    env,
    say: (text) => void said.push(text),
    complain: (text) => void complained.push(text),
  });
  return { code, said: said.join('\n'), complained: complained.join('\n') };
}

let lastMinute: number | undefined;
/** A whole minute of the past, another one each time. */
async function aMinute(): Promise<string> {
  if (lastMinute === undefined) {
    const [row] = await database.query<{ at: Date }>(`select date_trunc('minute', clock_timestamp()) as at`);
    lastMinute = row!.at.getTime();
  }
  lastMinute -= 60_000;
  return new Date(lastMinute).toISOString();
}

/** Both ways to the job. */
const WAYS: readonly [name: string, args: () => string[], env: () => NodeJS.ProcessEnv][] = [
  ['the database', () => ['--schema', SCHEMA], () => ({ DATABASE_URL: database.url })],
  ['the endpoint', () => ['--url', url], () => ({ TRIGGER_TOKEN: TOKEN })],
];

describe.each(WAYS)('trigger, by %s', (_, args, env) => {
  it('delivers, waits for the end, and delivers again without effect', async () => {
    const fireTime = await aMinute();
    const first = await command(
      [
        'trigger',
        'export',
        '--fire-time',
        fireTime,
        '--data',
        '{"month":11}',
        '--by',
        'ada',
        '--wait',
        '20s',
        ...args(),
      ],
      env(),
    );
    expect(first).toEqual({ code: EXIT.taken, said: `export of ${fireTime} is done.`, complained: '' });
    expect(seen).toMatchObject([{ trigger: 'external', data: { month: 11 }, attempt: 1 }]);
    const again = await command(['trigger', 'export', '--fire-time', fireTime, '--json', ...args()], env());
    expect(again.code).toBe(EXIT.taken);
    expect(JSON.parse(again.said)).toEqual({
      jobName: 'export',
      fireTime,
      status: 'done',
      duplicate: true,
      reason: null,
      text: `export of ${fireTime} is done; this delivery changed nothing.`,
    });
    expect(seen).toHaveLength(1);
    expect(
      await database.query(`select requested_by from "${SCHEMA}".job_runs where fire_time = $1`, [fireTime]),
    ).toEqual([{ requested_by: 'ada' }]);
  });

  it('takes the planned time from the name of a Kubernetes Job', async () => {
    const fireTime = await aMinute();
    const name = `export-${Date.parse(fireTime) / 60_000}`;
    expect(
      await command(['trigger', 'export', '--kubernetes-job', name, '--wait', '20s', ...args()], env()),
    ).toMatchObject({ code: 0, said: `export of ${fireTime} is done.` });
  });

  it('means what is due now when no time is named', async () => {
    expect(await command(['trigger', 'export', '--wait', '20s', ...args()], env())).toMatchObject({
      code: EXIT.taken,
      said: expect.stringContaining('is done'),
    });
  });

  it('says that a run is dead, or not over', async () => {
    expect(
      await command(['trigger', 'broken', '--fire-time', await aMinute(), '--wait', '20s', ...args()], env()),
    ).toMatchObject({ code: EXIT.notDone, said: expect.stringContaining('is dead') });
    const fireTime = await aMinute();
    await database.query(
      `insert into "${SCHEMA}".job_runs (job_name, fire_time, status, trigger, next_attempt_at) values ('broken', $1, 'queued', 'external', now() + interval '1 hour')`,
      [fireTime],
    );
    expect(
      await command(['trigger', 'broken', '--fire-time', fireTime, '--wait', '200ms', ...args()], env()),
    ).toMatchObject({ code: EXIT.notOver });
  });

  it('takes a skip for a decision', async () => {
    await app.get(SchedulerService).pause('broken', { by: 'ops' });
    const told = await command(
      ['trigger', 'broken', '--fire-time', await aMinute(), '--wait', '20s', ...args()],
      env(),
    );
    await app.get(SchedulerService).resume('broken', { by: 'ops' });
    expect(told).toMatchObject({ code: EXIT.taken, said: expect.stringContaining('is skipped (paused)') });
  });

  it.each([
    [
      'another time',
      ['export', '--fire-time', '2026-11-30T02:15:07Z'],
      /the nearest are 2026-11-30T02:15:00.000Z and 2026-11-30T02:16:00.000Z/,
    ],
    ['a time to come', ['export', '--fire-time', '2099-11-30T02:15:00+01:00'], /still .* away/],
    ['another job', ['exprot'], /There is no job "exprot"; did you mean "export"\?$/],
  ])('refuses %s', async (__, given, why) => {
    expect(await command(['trigger', ...given, ...args()], env())).toEqual({
      code: EXIT.refused,
      said: '',
      complained: expect.stringMatching(why),
    });
  });
});

describe('the command line', () => {
  it('helps, and names every option and every exit code', async () => {
    expect(await command(['trigger', '--help'])).toEqual({ code: 0, said: HELP, complained: '' });
    expect(await command(['trigger', '-h'])).toMatchObject({ code: 0 });
    expect(await command(['--help'])).toMatchObject({ code: 0, said: expect.stringContaining('trigger <job>') });
    const codes = [...HELP.slice(HELP.indexOf('Exit codes')).matchAll(/(?:^|[^\d])([0-5]) (?!times)/g)].map(
      ([, code]) => Number(code),
    );
    expect(codes).toEqual(Object.values(EXIT));
  });

  it.each([
    [[], 'Usage: nestjs-distributed-cron'],
    [['triger', 'export'], 'Did you mean trigger?'],
    [['trigger'], 'name the job'],
    [['trigger', 'export', 'other'], 'one job at a time; besides there is other'],
    [['trigger', 'export', '--firetime', 'x'], 'Unknown option "--firetime"; did you mean "--fire-time"?'],
    [['trigger', 'export', '--token', 'x'], 'Unknown option "--token"; there are --fire-time, --kubernetes-job, '],
    [['trigger', 'export', '--fire-time', ''], '--fire-time: expected a time such as 2026-11-30T02:15:00Z, got ""'],
    [['trigger', 'export', '--fire-time', '2026-11-30T02:15:00'], '--fire-time: expected a time'],
    [
      ['trigger', 'export', '--kubernetes-job', 'export-by-hand'],
      '--kubernetes-job: expected the name of a Job that a CronJob made',
    ],
    [
      ['trigger', 'export', '--fire-time', '2026-11-30T02:15:00Z', '--kubernetes-job', 'export-29400135'],
      'give one of them',
    ],
    [['trigger', 'export', '--data', '{'], '--data: expected JSON'],
    [['trigger', 'export', '--wait', 'soon'], '--wait: expected a duration'],
    [['trigger', 'export', '--url', 'ftp://app/cron'], '--url: expected the url of the endpoint'],
    [
      ['trigger', 'export', '--url', 'https://app/cron'],
      '--url needs a token: set TRIGGER_TOKEN, or give --token-file',
    ],
    [
      ['trigger', 'export', '--url', 'https://app/cron', '--token-file', '/nowhere'],
      '--token-file: cannot be read (ENOENT)',
    ],
    [['trigger', 'export', '--token-file', '/nowhere'], '--token-file is for --url'],
    [['trigger', '..', '--url', 'https://app/cron'], 'job: no url can name ".."'],
  ])('refuses %j', async (args, why) => {
    expect(await command(args)).toEqual({ code: EXIT.usage, said: '', complained: expect.stringContaining(why) });
  });

  it('wants a database to be named, and says when it cannot be reached, without its password', async () => {
    expect(await command(['trigger', 'export'])).toMatchObject({
      code: EXIT.usage,
      complained: expect.stringContaining('no database is named: set DATABASE_URL'),
    });
    const told = await command(['trigger', 'export'], { DATABASE_URL: 'postgres://app:hunter2@127.0.0.1:1/app' });
    expect(told).toMatchObject({
      code: EXIT.unreachable,
      complained: expect.stringContaining('Cannot connect to PostgreSQL (address from DATABASE_URL)'),
    });
    expect(told.complained).not.toContain('hunter2');
    expect(await command(['trigger', 'export', '--schema', 'elsewhere'], { DATABASE_URL: database.url })).toMatchObject(
      { code: EXIT.unreachable, complained: expect.stringContaining('run the migrations') },
    );
  });

  it.each(['s3cret\nsecond line', 's3cret\u0000', 's3cret with blanks', 's3cret\u20ac'])(
    'refuses a token that no header can hold, and does not show it: %j',
    async (token) => {
      const file = join(directory, 'no-token');
      writeFileSync(file, token);
      const told = [
        await command(['trigger', 'export', '--url', url, '--token-file', file]),
        await command(['trigger', 'export', '--url', url], { TRIGGER_TOKEN: token }),
      ];
      expect(told.map(({ code }) => code)).toEqual([EXIT.usage, EXIT.usage]);
      expect(told.map(({ complained }) => complained)).toEqual([
        expect.stringContaining('--token-file: expected one token'),
        expect.stringContaining('TRIGGER_TOKEN: expected one token'),
      ]);
      expect(JSON.stringify(told)).not.toContain('s3cret');
    },
  );

  it('takes its token from a file, and shows no token when it is refused', async () => {
    const file = join(directory, 'token');
    writeFileSync(file, `${TOKEN}\n`);
    expect(
      await command(['trigger', 'export', '--fire-time', await aMinute(), '--url', url, '--token-file', file]),
    ).toMatchObject({ code: EXIT.taken });
    const refused = await command(['trigger', 'export', '--url', url], { TRIGGER_TOKEN: 'b'.repeat(40) });
    expect(refused).toMatchObject({
      code: EXIT.refused,
      complained: expect.stringMatching(/answered 401: A token is needed/),
    });
    expect(refused.complained).not.toContain('bbbb');
    expect(
      await command(['trigger', 'export', '--url', 'http://127.0.0.1:1/cron'], { TRIGGER_TOKEN: TOKEN }),
    ).toMatchObject({ code: EXIT.unreachable, complained: expect.stringContaining('did not answer') });
  });
});
