// An application whose run outlasts its lease, as a process of its own: it ends well only where the heartbeat's thread
// renews. It says what happened as a line of JSON. It is bundled, too, so it finds the package by its name.
import 'reflect-metadata';
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { DistributedCron, DistributedSchedulerModule, SchedulerEvents } from 'nestjs-distributed-cron';
import { filter, firstValueFrom } from 'rxjs';

class Jobs {
  run() {
    return new Promise((resolve) => setTimeout(resolve, 2_500));
  }
}
DistributedCron('* * * * * *', { name: 'outlasts its lease', lease: '1s' })(
  Jobs.prototype,
  'run',
  Object.getOwnPropertyDescriptor(Jobs.prototype, 'run'),
);

const { HEARTBEAT_THREAD: heartbeatThread } = process.env;
class Root {}
Module({
  imports: [
    DistributedSchedulerModule.forRoot({ migrate: true, logging: false, ...(heartbeatThread && { heartbeatThread }) }),
  ],
  providers: [Jobs],
})(Root);

async function main() {
  try {
    const app = await NestFactory.createApplicationContext(Root, { logger: false, abortOnError: false });
    const ended = await firstValueFrom(
      app.get(SchedulerEvents).pipe(filter(({ type }) => type === 'run.completed' || type === 'lease.lost')),
    );
    await app.close();
    say({ ended: ended.type, attempt: ended.attempt });
  } catch (error) {
    say({ failed: error.code ?? error.name, message: error.message });
  }
}

function say(what) {
  process.stdout.write(`${JSON.stringify(what)}\n`);
}

void main();
