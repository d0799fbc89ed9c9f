import { once } from 'node:events';
import { request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import {
  Injectable,
  SetMetadata,
  ValidationPipe,
  VersioningType,
  type CanActivate,
  type ExecutionContext,
  type INestApplication,
} from '@nestjs/common';
import { APP_GUARD, Reflector } from '@nestjs/core';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { Test } from '@nestjs/testing';
import { DistributedCron, DistributedSchedulerModule, SchedulerService, type CronRun } from '../../lib/index.js';
import { Deliveries } from '../../lib/operations/deliveries.service.js';
import { DeliveryStore } from '../../lib/operations/delivery.store.js';
import {
  DistributedCronTriggerModule,
  type TriggerAsyncOptions,
  type TriggerOptions,
} from '../../lib/trigger/index.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';

const TOKEN = 'a'.repeat(31) + '1';
const NEXT_TOKEN = 'b'.repeat(40);
const ADAPTERS = [
  ['Express', () => new ExpressAdapter()],
  ['Fastify', () => new FastifyAdapter()],
] as const;

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database.drop());

let seen: CronRun[] = [];
const apps: INestApplication[] = [];
afterEach(async () => {
  await Promise.all(apps.splice(0).map((app) => app.close()));
  seen = [];
});

@Injectable()
class Exports {
  @DistributedCron('* * * * *', {
    name: 'nightly/export & mail',
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
const JOB = encodeURIComponent('nightly/export & mail');

interface Answer {
  readonly status: number;
  readonly headers: Record<string, unknown>;
  readonly body: any;
}
type Post = (
  path: string,
  given?: { headers?: Record<string, string | string[]>; body?: string; token?: string | null },
) => Promise<Answer>;

async function serve(
  adapter: () => ExpressAdapter | FastifyAdapter,
  trigger: TriggerOptions | TriggerAsyncOptions,
  {
    prepare = () => {},
    providers = [],
    bodyParser = true,
  }: { prepare?: (app: INestApplication) => void; providers?: any[]; bodyParser?: boolean } = {},
): Promise<{ post: Post; app: INestApplication }> {
  const testing = await Test.createTestingModule({
    imports: [
      DistributedSchedulerModule.forRoot({
        connection: database.url,
        migrate: true,
        logging: false,
        pollInterval: 200,
      }),
      'useFactory' in trigger
        ? DistributedCronTriggerModule.forRootAsync(trigger)
        : DistributedCronTriggerModule.forRoot(trigger),
    ],
    providers: [Exports, ...providers],
  }).compile();
  const app = testing.createNestApplication(adapter() as ExpressAdapter, { logger: false, bodyParser });
  apps.push(app);
  prepare(app);
  await app.listen(0, '127.0.0.1');
  await database.query(`update job_schedule set effective_from = '2020-01-01', decided_until = '2020-01-01'`);
  const { port } = app.getHttpServer().address() as AddressInfo;
  const post: Post = async (path, { headers = {}, body, token = TOKEN } = {}) => {
    const authorization = token === null ? {} : { authorization: `Bearer ${token}` };
    const type = body === undefined ? {} : { 'content-type': 'application/json' };
    const sent = request({
      port,
      host: '127.0.0.1',
      path,
      method: 'POST',
      headers: { ...authorization, ...type, ...headers },
    });
    sent.end(body);
    const [answer] = await once(sent, 'response');
    const chunks: Buffer[] = [];
    for await (const chunk of answer) chunks.push(chunk);
    const text = Buffer.concat(chunks).toString();
    return { status: answer.statusCode, headers: answer.headers, body: text.startsWith('{') ? JSON.parse(text) : text };
  };
  return { post, app };
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

describe.each(ADAPTERS)('the endpoint on %s', (_, adapter) => {
  it('takes a delivery in once, and answers what there is', async () => {
    const { post } = await serve(adapter, { token: TOKEN });
    const fireTime = await aMinute();
    const body = JSON.stringify({ fireTime, by: 'cronjob', data: { month: 11 } });
    const first = await post(`/cron/${JOB}`, { body });
    expect(first).toMatchObject({
      status: 202,
      body: { jobName: 'nightly/export & mail', fireTime, duplicate: false },
    });
    const waited = await post(`/cron/${JOB}?wait=20s`, { body });
    expect(waited).toMatchObject({
      status: 200,
      body: {
        status: 'done',
        duplicate: true,
        text: `nightly/export & mail of ${fireTime} is done; this delivery changed nothing.`,
      },
    });
    expect(await post(`/cron/${JOB}`, { body })).toMatchObject({
      status: 200,
      body: { status: 'done', duplicate: true },
    });
    expect(seen).toMatchObject([{ trigger: 'external', data: { month: 11 } }]);
    expect(await database.query(`select requested_by from job_runs where fire_time = $1`, [fireTime])).toEqual([
      { requested_by: 'cronjob' },
    ]);
  });

  it('reads the planned time from its headers, with any offset, and from an event', async () => {
    const { post } = await serve(adapter, { token: TOKEN });
    const inBerlin = (iso: string) => `${new Date(Date.parse(iso) + 3_600_000).toISOString().slice(0, 19)}+01:00`;
    const [one, two, three, four, five] = [
      await aMinute(),
      await aMinute(),
      await aMinute(),
      await aMinute(),
      await aMinute(),
    ];
    expect(
      (await post(`/cron/${JOB}`, { headers: { 'x-kubernetes-job': `nightly-export-${Date.parse(five) / 60_000}` } }))
        .body.fireTime,
    ).toBe(five);
    expect((await post(`/cron/${JOB}`, { headers: { 'x-fire-time': inBerlin(one) } })).body.fireTime).toBe(one);
    expect(
      (await post(`/cron/${JOB}`, { body: '{}', headers: { 'X-CloudScheduler-ScheduleTime': inBerlin(two) } })).body
        .fireTime,
    ).toBe(two);
    const event = {
      version: '0',
      id: '1',
      'detail-type': 'Scheduled Event',
      source: 'aws.events',
      account: '1',
      time: three.replace('00.000Z', '41Z'),
      region: 'eu-central-1',
      resources: [],
      detail: {},
    };
    expect((await post(`/cron/${JOB}`, { body: JSON.stringify(event) })).body.fireTime).toBe(three);
    expect(
      (await post(`/cron/${JOB}`, { body: JSON.stringify({ ...event, detail: { fireTime: four, data: 4 } }) })).body
        .fireTime,
    ).toBe(four);
    expect(
      await database.query(`select requested_by from job_runs where fire_time = any ($1) order by fire_time`, [
        [three, one],
      ]),
    ).toEqual([{ requested_by: 'eventbridge' }, { requested_by: 'http' }]);
  });

  it('means what is due now when no time is given, with and without a body', async () => {
    const { post } = await serve(adapter, { token: TOKEN });
    const now = await post(`/cron/${JOB}`);
    expect([200, 202]).toContain(now.status);
    expect(Math.abs(Date.parse(now.body.fireTime) - Date.now())).toBeLessThan(120_000);
    expect((await post(`/cron/${JOB}`, { body: '{}' })).status).toBeLessThan(300);
  });

  it.each<[what: string, path: string, given: Parameters<Post>[1], status: number, message: unknown]>([
    [
      'another time than the schedule has',
      `/cron/${JOB}`,
      { body: '{"fireTime":"2026-11-30T02:15:07Z"}' },
      422,
      /no fire time at 2026-11-30T02:15:07.000Z; the nearest are 2026-11-30T02:15:00.000Z and 2026-11-30T02:16:00.000Z/,
    ],
    ['a time to come', `/cron/${JOB}`, { body: '{"fireTime":"2099-11-30T02:15:00Z"}' }, 409, /still .* away/],
    ['a job that is not there', '/cron/other', {}, 404, /There is no job "other"/],
    [
      'a time without an offset',
      `/cron/${JOB}`,
      { body: '{"fireTime":"2026-11-30T02:15:00"}' },
      400,
      ['fireTime: expected a time such as "2026-11-30T02:15:00Z", got "2026-11-30T02:15:00"'],
    ],
    [
      'a placeholder that nobody filled in',
      `/cron/${JOB}`,
      { headers: { 'x-fire-time': '<aws.scheduler.scheduled-time>' } },
      400,
      [expect.stringContaining('x-fire-time: expected a time')],
    ],
    [
      'a Job that a person made',
      `/cron/${JOB}`,
      { headers: { 'x-kubernetes-job': 'nightly-export-by-hand' } },
      400,
      [expect.stringContaining('x-kubernetes-job: expected the name of a Job that a CronJob made')],
    ],
    [
      'a day that does not exist',
      `/cron/${JOB}`,
      { body: '{"fireTime":"2026-11-31T02:15:00Z"}' },
      400,
      [expect.stringContaining('expected a time')],
    ],
    [
      'a misspelt property, and a second problem',
      `/cron/${JOB}?wait=1d`,
      { body: '{"firetime":"x"}' },
      400,
      [expect.stringContaining('did you mean "fireTime"?'), expect.stringContaining('wait: expected at most 5m')],
    ],
    [
      'two times',
      `/cron/${JOB}`,
      { body: '{"fireTime":"2026-11-30T02:15:00Z"}', headers: { 'x-fire-time': '2026-11-30T02:16:00Z' } },
      400,
      ['the planned time is given twice, and not the same'],
    ],
    [
      'a header that is repeated',
      `/cron/${JOB}`,
      { headers: { 'x-fire-time': ['2026-11-30T02:15:00Z', '2026-11-30T02:15:00Z'] } },
      400,
      [expect.stringContaining('x-fire-time')],
    ],
    ['a list', `/cron/${JOB}`, { body: '[]' }, 400, [expect.stringContaining('expected JSON such as')]],
    ['a body that is no JSON', `/cron/${JOB}`, { body: '{fireTime' }, 400, expect.anything()],
    [
      'a body that is sent as text, as fetch does by itself',
      `/cron/${JOB}`,
      { body: '{"fireTime":"2026-11-30T02:15:00Z"}', headers: { 'content-type': 'text/plain;charset=UTF-8' } },
      400,
      [expect.stringContaining('sent as application/json')],
    ],
    [
      'a body that is too large',
      `/cron/${JOB}`,
      { body: JSON.stringify({ data: 'x'.repeat(2_000_000) }) },
      413,
      expect.anything(),
    ],
    ['the name of an empty job', '/cron/%00', {}, 400, expect.anything()],
  ])('refuses %s', async (__, path, given, status, message) => {
    const { post } = await serve(adapter, { token: TOKEN });
    const answer = await post(path, given);
    expect({ status: answer.status, message: answer.body.message }).toEqual({
      status,
      message: message instanceof RegExp ? expect.stringMatching(message) : message,
    });
    expect(JSON.stringify(answer.body)).not.toMatch(/node_modules|\bat .*\.js/);
  });

  it.each<[what: string, token: string | null, headers: Record<string, string>]>([
    ['no token', null, {}],
    ['another token', 'c'.repeat(32), {}],
    ['the beginning of the token', TOKEN.slice(0, -1), {}],
    ['a token with more behind it', `${TOKEN}x`, {}],
    ['an empty one', '', {}],
    ['another scheme', null, { authorization: `Basic ${TOKEN}` }],
    ['the token alone', null, { authorization: TOKEN }],
  ])('lets nobody in with %s, and says nothing of jobs', async (__, token, headers) => {
    const { post } = await serve(adapter, { token: [TOKEN, NEXT_TOKEN] });
    const [known, unknown] = [
      await post(`/cron/${JOB}`, { token, headers }),
      await post('/cron/unknown', { token, headers }),
    ];
    expect(known).toMatchObject({ status: 401, headers: { 'www-authenticate': 'Bearer' }, body: { statusCode: 401 } });
    expect(unknown.body).toEqual(known.body);
    expect(JSON.stringify(known)).not.toMatch(/export|aaaa/);
  });

  it('takes each of several tokens, so that they can be changed', async () => {
    const { post } = await serve(adapter, { token: [TOKEN, NEXT_TOKEN] });
    expect((await post('/cron/unknown', { token: TOKEN })).status).toBe(404);
    expect(
      (await post('/cron/unknown', { token: NEXT_TOKEN, headers: { authorization: `bearer ${NEXT_TOKEN}` } })).status,
    ).toBe(404);
  });

  it('keeps to prefix, versions, pipes and guards of the application, and can be exempt from them', async () => {
    @Injectable()
    class NobodyGuard implements CanActivate {
      constructor(private readonly reflector: Reflector) {}
      canActivate(context: ExecutionContext) {
        return this.reflector.getAllAndOverride<boolean>('open', [context.getHandler(), context.getClass()]) ?? false;
      }
    }
    const prepare = (app: INestApplication) => {
      app.setGlobalPrefix('api');
      app.enableVersioning({ type: VersioningType.URI, defaultVersion: '1' });
      app.useGlobalPipes(new NoPipe());
    };
    const providers = [{ provide: APP_GUARD, useClass: NobodyGuard }];
    const closed = await serve(adapter, { token: TOKEN }, { prepare, providers });
    expect((await closed.post(`/api/cron/${JOB}`)).status).toBe(403);
    const open = await serve(
      adapter,
      { token: TOKEN, path: 'internal/cron', decorators: [SetMetadata('open', true)] },
      { prepare, providers },
    );
    expect(
      (await open.post(`/api/internal/cron/${JOB}`, { body: JSON.stringify({ fireTime: await aMinute() }) })).status,
    ).toBe(202);
  });

  it('asks a guard of the application instead of a token', async () => {
    @Injectable()
    class MeshGuard implements CanActivate {
      canActivate(context: ExecutionContext) {
        return context.switchToHttp().getRequest().headers['x-mesh'] === 'cron';
      }
    }
    const { post } = await serve(adapter, { guard: MeshGuard });
    expect((await post('/cron/unknown', { token: null })).status).toBe(403);
    expect((await post('/cron/unknown', { token: null, headers: { 'x-mesh': 'cron' } })).status).toBe(404);
    const both = await serve(adapter, { guard: MeshGuard, token: TOKEN });
    expect((await both.post('/cron/unknown', { token: null, headers: { 'x-mesh': 'cron' } })).status).toBe(401);
    expect((await both.post('/cron/unknown')).status).toBe(403);
  });

  it('refuses content that the application does not read, and takes a request without any', async () => {
    const { post } = await serve(adapter, { token: TOKEN }, { bodyParser: false });
    const body = JSON.stringify({ fireTime: await aMinute() });
    const unread = await post(`/cron/${JOB}`, { body, headers: { 'content-type': 'application/x-yaml' } });
    expect([400, 415]).toContain(unread.status);
    expect((await post(`/cron/${JOB}`, { headers: { 'x-fire-time': await aMinute() } })).status).toBe(202);
  });

  it('says to who waits that a run is dead, or not over yet', async () => {
    const { post, app } = await serve(adapter, { useFactory: async () => ({ token: TOKEN }) });
    expect(await post('/cron/broken?wait=20s', { body: JSON.stringify({ fireTime: await aMinute() }) })).toMatchObject({
      status: 424,
      body: { status: 'dead' },
    });
    const fireTime = await aMinute();
    await database.query(
      `insert into job_runs (job_name, fire_time, status, trigger, next_attempt_at) values ('broken', $1, 'queued', 'external', now() + interval '1 hour')`,
      [fireTime],
    );
    expect(await post('/cron/broken?wait=200ms', { body: JSON.stringify({ fireTime }) })).toMatchObject({
      status: 202,
      body: { status: 'queued', duplicate: true },
    });
    await app.get(SchedulerService).pause('broken', { by: 'ops' });
    expect(await post('/cron/broken', { body: JSON.stringify({ fireTime: await aMinute() }) })).toMatchObject({
      status: 200,
      body: { status: 'skipped', reason: 'paused', duplicate: false },
    });
    await app.get(SchedulerService).resume('broken', { by: 'ops' });
  });
});

describe.each(ADAPTERS)('an application on %s that closes', (_, adapter) => {
  it('answers who waits, and is not kept open by him', async () => {
    const { post, app } = await serve(adapter, { token: TOKEN });
    const fireTime = await aMinute();
    await database.query(
      `insert into job_runs (job_name, fire_time, status, trigger, next_attempt_at) values ('broken', $1, 'queued', 'external', now() + interval '1 hour')`,
      [fireTime],
    );
    const store = app.get(DeliveryStore);
    const standing = store.standing.bind(store);
    const waits = new Promise<void>((resolve) => {
      let looks = 0;
      store.standing = (key) => {
        if (++looks === 2) resolve();
        return standing(key);
      };
    });
    const waiting = post('/cron/broken?wait=5m', { body: JSON.stringify({ fireTime }) });
    await waits;
    await app.close();
    expect(await waiting).toMatchObject({ status: 202, body: { status: 'queued', duplicate: true } });
  });
});

describe('the module', () => {
  it.each<[what: string, options: TriggerOptions, message: string | RegExp]>([
    ['neither a token nor a guard', {}, 'a token or a guard is needed'],
    ['an empty list', { token: [] }, 'a token or a guard is needed'],
    [
      'a short token',
      { token: 'secret' },
      'token: expected at least 32 characters, got 6; openssl rand -hex 32 makes one.',
    ],
    [
      'a token with a blank',
      { token: ['x'.repeat(32), `secret ${'x'.repeat(32)}`] },
      'token[1]: expected printable ASCII without blanks',
    ],
    [
      'a variable that is not set',
      { token: [undefined as never] },
      'token: expected a text, got a undefined; is a variable not set?',
    ],
  ])('does not start with %s, and shows no token', async (_, options, message) => {
    const started = serve(ADAPTERS[0][1], options);
    await expect(started).rejects.toThrow(message);
    await expect(started).rejects.not.toThrow('secret ');
  });

  it.each(['/cron', 'cron/:job', '', 'cron/'])('refuses the path %j', (path) => {
    expect(() => DistributedCronTriggerModule.forRoot({ token: TOKEN, path })).toThrow(
      'path: expected a path such as "cron"',
    );
  });

  it('answers that a delivery may be tried again when the database is gone', async () => {
    const { post, app } = await serve(ADAPTERS[0][1], { token: TOKEN });
    Object.assign(app.get(Deliveries), {
      store: { job: () => Promise.reject(new Error('connect ECONNREFUSED 10.0.0.1:5432')) },
    });
    const answer = await post(`/cron/${JOB}`);
    expect(answer).toMatchObject({ status: 503, body: { message: expect.stringContaining('deliver it again') } });
    expect(JSON.stringify(answer.body)).not.toContain('10.0.0.1');
  });
});

/** Instead of class-validator, which is no dependency of this package: what a pipe gets. */
class NoPipe extends ValidationPipe {
  protected override loadValidator(): never {
    return { validate: async () => [] } as never;
  }
  protected override loadTransformer(): never {
    return {} as never;
  }
  override async transform(value: unknown, metadata: { type: string; metatype?: unknown }): Promise<unknown> {
    if (this.toValidate(metadata as never))
      throw new Error(`A pipe would validate ${metadata.type} as ${String(metadata.metatype)}`);
    return value;
  }
}
