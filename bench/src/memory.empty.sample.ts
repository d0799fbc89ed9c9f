import 'reflect-metadata';
import { NestFactory } from '@nestjs/core';
import { usedMegabytes } from './used-memory.js';

/** The floor: an application of nothing. */
class Empty {}

const app = await NestFactory.createApplicationContext({ module: Empty }, { logger: false });
const megabytes = await usedMegabytes();
await app.close();
console.log(JSON.stringify(megabytes));
