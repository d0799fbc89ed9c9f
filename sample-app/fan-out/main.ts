import 'reflect-metadata';
import { setTimeout as pause } from 'node:timers/promises';
import { NestFactory } from '@nestjs/core';
import { SchedulerService } from 'nestjs-distributed-cron';
import { startEmbeddedServer } from 'nestjs-distributed-cron/testing';
import { DataSource } from 'typeorm';
import { Cleanup } from '../demo/cleanup.js';
import { Statement } from '../src/mailing/statement.entity.js';
import { AppModule } from './app.module.js';
import { Replicas } from './replicas.js';
import { CUSTOMERS, PAGES, STATEMENT_RUN } from './statement-run.job.js';
import { readVerdict, type Verdict } from './verdict.js';

const NAMES = ['A', 'B', 'C'];
const asJson = process.argv.includes('--json');
const say = (text: string) => (asJson ? console.error(text) : console.log(text));

const cleanup = new Cleanup();
try {
  const verdict = await show();
  tell(verdict);
  process.exitCode = verdict.held ? 0 : 1;
} finally {
  for (const failure of await cleanup.run()) console.error('Cleaning up:', failure);
}

/** A statement run that is fanned out over three replicas, one of them killed in the middle. */
async function show(): Promise<Verdict> {
  const server = await startEmbeddedServer();
  cleanup.add(() => server.stop());
  process.env.DATABASE_URL = server.url;
  const dataSource = await new DataSource({
    type: 'postgres',
    url: server.url,
    entities: [Statement],
    synchronize: true,
    poolSize: 2,
  }).initialize();
  cleanup.add(() => dataSource.destroy());
  const operator = await NestFactory.createApplicationContext(AppModule, { logger: false });
  cleanup.add(() => operator.close());
  const replicas = new Replicas();
  cleanup.add(() => replicas.stop());
  await replicas.start(NAMES, server.url);
  say(`Replicas ${NAMES.join(', ')} are ready. The statement run begins: ${CUSTOMERS} customers in ${PAGES} pages.`);
  await operator.get(SchedulerService).runNow(STATEMENT_RUN, { by: 'fan-out demo' });
  await until(
    'a quarter of the pages is done',
    dataSource,
    `select count(*) >= ${PAGES / 4} as holds from job_pages where status = 'done'`,
  );
  const victim = await victimOf(dataSource, replicas);
  await replicas.kill(victim);
  say(`Replica ${victim} was killed (SIGKILL) in the middle of its pages.`);
  await until(
    'the occurrence has ended',
    dataSource,
    `select count(*) = 1 as holds from job_runs where status in ('done', 'dead')`,
  );
  return readVerdict(dataSource);
}

/** A replica that has a page half done: an instance's id names its process. */
async function victimOf(dataSource: DataSource, replicas: Replicas): Promise<string> {
  const busy = await dataSource.query<{ claimed_by: string }[]>(
    `select page.claimed_by from job_pages page join receipts receipt on receipt.claimed_by = page.claimed_by and receipt.fire_time = page.fire_time
     where page.status = 'running' group by page.claimed_by`,
  );
  return (
    NAMES.find((name) => busy.some(({ claimed_by }) => claimed_by.includes(`-${replicas.pid(name)}-`))) ?? NAMES[0]!
  );
}

async function until(what: string, dataSource: DataSource, sql: string): Promise<void> {
  const end = performance.now() + 300_000;
  for (;;) {
    const [row] = await dataSource.query<{ holds: boolean }[]>(sql);
    if (row?.holds) return;
    if (performance.now() > end) throw new Error(`Waited five minutes until ${what}.`);
    await pause(100);
  }
}

function tell(verdict: Verdict): void {
  const { held, status, pagesDone, statements, customers, takenOver, replicas, seconds } = verdict;
  say('');
  say('Read from the database:');
  say(`  occurrence  ${status}, ${seconds} s from its start to its last page`);
  say(
    `  pages       ${pagesDone} of ${PAGES} done, by ${replicas} replicas; ${takenOver} were taken over from the one that was killed`,
  );
  say(
    `  statements  ${statements} for ${customers} customers: ${statements - customers} twice, ${CUSTOMERS - customers} missing`,
  );
  say(held ? 'Every statement was written, and none twice.' : 'That is not what was promised.');
  if (asJson) process.stdout.write(`${JSON.stringify(verdict)}\n`);
}
