// A CommonJS application on NestJS 11 and TypeORM 0.3, as a user has it: three occurrences of a per-second job, each with a receipt.
require('reflect-metadata');
const { readFileSync } = require('node:fs');
const { join } = require('node:path');
const { Inject, Injectable, Module, Scope, UseGuards, createParamDecorator } = require('@nestjs/common');
const { NestFactory, REQUEST } = require('@nestjs/core');
const { firstValueFrom, map, scan, filter } = require('rxjs');
const { DataSource, EntitySchema } = require('typeorm');
const { schedulerMigrations } = require('nestjs-distributed-cron/migrations');
const { DistributedCronTriggerModule } = require('nestjs-distributed-cron/trigger');
const {
  DistributedCron,
  DistributedSchedulerModule,
  ReceiptService,
  SchedulerEvents,
} = require('nestjs-distributed-cron');

const OCCURRENCES = 3;
const story = [];

const Invoice = new EntitySchema({ name: 'invoice', columns: { id: { type: 'text', primary: true } } });

class Allowing {
  canActivate(context) {
    return context.getType() === 'cron';
  }
}

class Invoices {
  constructor(receipts) {
    this.receipts = receipts;
  }

  async send(run) {
    await this.receipts.once('4711', (manager) => manager.insert('invoice', { id: run.fireTime.toISOString() }));
  }
}
Injectable()(Invoices);
Inject(ReceiptService)(Invoices, undefined, 0);
decorate(Invoices, 'send', UseGuards(new Allowing()), DistributedCron('* * * * * *', { name: 'invoices' }));

class Scoped {
  constructor(request) {
    this.request = request;
  }

  run(run) {
    if (this.request !== run) throw new Error('REQUEST is not the run');
  }
}
Injectable({ scope: Scope.REQUEST })(Scoped);
Inject(REQUEST)(Scoped, undefined, 0);
decorate(Scoped, 'run', DistributedCron('* * * * * *', { name: 'scoped' }));

/** What running handlers use; closed by Nest's first hook. */
class Connection {
  onModuleDestroy() {
    story.push('connection closed');
  }
}
class Slow {
  async run() {
    story.push('begin');
    await new Promise((resolve) => setTimeout(resolve, 500));
    story.push('end');
  }
}
decorate(Slow, 'run', DistributedCron('* * * * * *', { name: 'slow' }));

/** Two features with an `Importer.handle` each: NestJS 11 knows parameters by these two names alone. */
const received = {};
function importerOf(name, ...parameters) {
  class Importer {
    handle(first) {
      received[name] = first.jobName ?? first;
    }
  }
  parameters.forEach((parameter, index) => parameter(Importer.prototype, 'handle', index));
  decorate(Importer, 'handle', DistributedCron('* * * * * *', { name }));
  class Feature {}
  Module({ providers: [Importer] })(Feature);
  return Feature;
}
const Tenant = createParamDecorator(() => 'a tenant');
const features = [importerOf('customers', Tenant()), importerOf('suppliers')];

/** Fired by a clock outside, over HTTP. */
class Export {
  run(run) {
    received.export = run.data;
  }
}
decorate(Export, 'run', DistributedCron('* * * * * *', { name: 'export', trigger: 'external' }));
const TOKEN = 'a token of more than thirty-two characters'.replaceAll(' ', '-');

async function deliveries(url) {
  const fireTime = new Date(Math.ceil(Date.now() / 1000) * 1000).toISOString();
  const post = async (token) => {
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
    const answer = await fetch(`${url}/cron/export?wait=20s`, {
      method: 'POST',
      headers,
      body: JSON.stringify({ fireTime, data: 'by a clock outside' }),
    });
    const { status, duplicate } = await answer.json();
    return [answer.status, status, duplicate];
  };
  return [await post('another'), await post(TOKEN), await post(TOKEN)];
}

class Root {}

async function main() {
  const dataSource = await new DataSource({
    type: 'postgres',
    url: process.env.DATABASE_URL,
    entities: [Invoice],
    synchronize: true,
  }).initialize();
  const scheduler = DistributedSchedulerModule.forRootAsync({
    useFactory: () => ({ dataSource, migrate: true, logging: false }),
  });
  Module({
    imports: [scheduler, DistributedCronTriggerModule.forRoot({ token: TOKEN }), ...features],
    providers: [Invoices, Scoped, Slow, Connection, Export],
  })(Root);
  const app = await NestFactory.create(Root, { logger: ['error', 'warn'], abortOnError: false });
  await app.listen(0, '127.0.0.1');
  const events = app.get(SchedulerEvents);
  await Promise.all(
    ['invoices', 'scoped', 'customers', 'suppliers'].map((job) => firstValueFrom(completions(events, job))),
  );
  const delivered = await deliveries(await app.getUrl());
  await firstValueFrom(events.of('run.started').pipe(filter(({ jobName }) => jobName === 'slow')));
  await app.close();
  const receipts = await dataSource.query(
    'select count(*)::int as receipts, (select count(*)::int from invoice) as invoices from receipts',
  );
  const runs = await dataSource.query('select distinct status from job_runs order by 1');
  await dataSource.destroy();
  const versions = ['@nestjs/core', 'typeorm'].map(
    (name) => JSON.parse(readFileSync(join(__dirname, 'node_modules', name, 'package.json'), 'utf8')).version,
  );
  console.log(
    JSON.stringify({
      versions,
      migrations: schedulerMigrations.length,
      ...receipts[0],
      statuses: runs.map(({ status }) => status),
      end: story.slice(-3),
      received,
      delivered,
    }),
  );
}

function completions(events, job) {
  return events.of('run.completed').pipe(
    filter(({ jobName }) => jobName === job),
    scan((count) => count + 1, 0),
    filter((count) => count === OCCURRENCES),
    map(() => job),
  );
}

function decorate(type, method, ...decorators) {
  const descriptor = Object.getOwnPropertyDescriptor(type.prototype, method);
  for (const decorator of decorators) decorator(type.prototype, method, descriptor);
}

main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
