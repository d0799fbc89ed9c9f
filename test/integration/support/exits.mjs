// A process that starts an application as a user would, and says what happened as a line of JSON. Nothing ends it but
// itself.
import { readdirSync } from 'node:fs';
import 'reflect-metadata';
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { firstValueFrom } from 'rxjs';
import { DistributedCron, DistributedSchedulerModule, SchedulerEvents } from '../../../dist/lib/index.js';

process.on('unhandledRejection', (error) => say({ unhandledRejection: String(error) }));
process.on('warning', ({ name }) => say({ warning: name }));

class Jobs {
  run() {}
}
decorate('* * * * * *', { name: 'each-second' });

const scheduler = (options) => DistributedSchedulerModule.forRoot({ migrate: true, logging: false, ...options });
const broken = (hook) => ({
  provide: 'broken',
  useValue: { [hook]: () => Promise.reject(new Error(`${hook} failed`)) },
});
const unreachable = 'postgres://app:secret@127.0.0.1:1/app';

const STORIES = {
  closed: { work: (app) => firstValueFrom(app.get(SchedulerEvents).of('run.completed')) },
  idle: { jobs: false },
  'started again and again': { starts: 40 },
  'bad job': { before: () => decorate('0 25 * * *', { name: 'bad' }) },
  'missing tables': { options: { migrate: false, schema: 'nowhere' } },
  unreachable: { options: { connection: unreachable } },
  'no password': { options: { connection: withoutPassword() } },
  'second scheduler': { imports: () => [scheduler()] },
  'failing provider': {
    providers: [{ provide: 'broken', useFactory: () => Promise.reject(new Error('factory failed')) }],
  },
  'failing onModuleInit': { providers: [broken('onModuleInit')] },
  'failing onApplicationBootstrap': { providers: [broken('onApplicationBootstrap')] },
};

const story = STORIES[process.argv[2]];
story.before?.();
const providers = [...(story.jobs === false ? [] : [Jobs]), ...(story.providers ?? [])];
class Root {}
Module({ imports: [scheduler(story.options), ...(story.imports?.() ?? [])], providers })(Root);
const start = () => NestFactory.createApplicationContext(Root, { logger: false, abortOnError: false });
try {
  if (story.starts) await again(story.starts);
  const app = await start();
  await story.work?.(app);
  await app.close();
  say({ closed: true });
} catch (error) {
  say({ failed: error.code ?? error.name, message: error.message });
}

function decorate(expression, options) {
  DistributedCron(expression, options)(Jobs.prototype, 'run', Object.getOwnPropertyDescriptor(Jobs.prototype, 'run'));
}

/** What a process holds once it has started and stopped a few times, and then many times. */
async function again(starts) {
  const cycle = async (count) => {
    for (let index = 0; index < count; index++) await (await start()).close();
    // A thread and a socket are gone a moment after they were closed.
    await new Promise((resolve) => setTimeout(resolve, 500));
    return held();
  };
  const few = await cycle(5);
  say({ few, many: await cycle(starts) });
}

function held() {
  const counted = (path) => {
    try {
      return readdirSync(path).length;
    } catch {
      return null; // not on Linux
    }
  };
  return {
    resources: process.getActiveResourcesInfo().sort(),
    listeners: Object.fromEntries(process.eventNames().map((name) => [String(name), process.listenerCount(name)])),
    threads: counted('/proc/self/task'),
    files: counted('/proc/self/fd'),
  };
}

function withoutPassword() {
  const url = new URL(process.env.DATABASE_URL ?? unreachable);
  url.password = '';
  return url.href;
}

function say(what) {
  process.stdout.write(`${JSON.stringify({ ...what, at: Date.now() })}\n`);
}
