import 'reflect-metadata';
import { NestFactory } from '@nestjs/core';
import { AppModule } from './app.module.js';
import { ParentLogger } from './demo/parent-logger.js';
import { tellParent } from './demo/parent.js';

/** One replica of the invoice service. It ends with the demo that started it, however that ends. */
const inDemo = process.connected;
if (inDemo) {
  process.once('disconnect', () => process.exit());
  // Ctrl-C in a terminal reaches every process in it; who started the replicas also ends them.
  process.on('SIGINT', () => {});
}

try {
  const app = await NestFactory.createApplicationContext(AppModule, {
    abortOnError: false,
    ...(inDemo ? { logger: new ParentLogger() } : {}),
  });
  app.enableShutdownHooks(inDemo ? ['SIGTERM'] : undefined);
  tellParent({ kind: 'ready' });
} catch (error) {
  const message = error instanceof Error ? error.message : String(error);
  if (inDemo) tellParent({ kind: 'failed', message });
  else console.error(message);
  process.exitCode = 1;
  // The channel to the parent would keep this process alive.
  if (inDemo) process.disconnect();
}
