import 'reflect-metadata';
import { NestFactory } from '@nestjs/core';
import { AppModule } from './app.module.js';

/** One replica of the statement service. It ends with the program that started it, however that ends. */
process.once('disconnect', () => process.exit());
process.on('SIGINT', () => {});
const app = await NestFactory.createApplicationContext(AppModule, { logger: ['error', 'warn'] });
app.enableShutdownHooks(['SIGTERM']);
process.send!('ready');
