import { Module } from '@nestjs/common';
import { Desk } from './desk.js';
import { EventReporter } from './event-reporter.js';

@Module({ providers: [Desk, EventReporter] })
export class DemoModule {}
