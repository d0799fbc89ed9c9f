import { Module } from '@nestjs/common';
import { EventReporter } from './event-reporter.js';

@Module({ providers: [EventReporter] })
export class DemoModule {}
