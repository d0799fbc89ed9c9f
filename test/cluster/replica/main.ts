import 'reflect-metadata';
import { NestFactory } from '@nestjs/core';
import { once } from 'node:events';
import { watchBoundaries, watchPageEnds } from './boundaries.js';
import { Parent } from './parent.js';
import { ReplicaModule } from './replica.module.js';
import type { ReplicaSettings } from './settings.js';

const settings = JSON.parse(process.env['REPLICA']!) as ReplicaSettings;
if (settings.believedPid !== undefined) Object.defineProperty(process, 'pid', { value: settings.believedPid });

// A replica without its test is nobody's.
process.on('disconnect', () => process.exit(1));

if (settings.standsBy) {
  const begun = once(process, 'message');
  process.send!({ kind: 'standing by' });
  await begun;
}

const app = await NestFactory.createApplicationContext(ReplicaModule.with(settings), { logger: ['error', 'warn'] });

await watchBoundaries(app);
await watchPageEnds(app);

process.once('SIGTERM', async () => {
  await app.close();
  // From here on nothing of the scheduler may keep the process alive.
  process.removeAllListeners('disconnect');
  process.disconnect();
});

await app.get(Parent).tell({ kind: 'ready' });
