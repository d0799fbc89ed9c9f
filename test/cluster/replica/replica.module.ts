import { Module, type DynamicModule } from '@nestjs/common';
import { DistributedSchedulerModule } from 'nestjs-distributed-cron';
import { DistributedCronBullMqModule } from 'nestjs-distributed-cron/bullmq';
import { Boundaries } from './boundaries.js';
import { Calls } from './calls.js';
import { Effects } from './effects.js';
import { EventReporter } from './event.reporter.js';
import { Freezer } from './freezer.js';
import { handlerProvider, jobProvider } from './job.provider.js';
import { Mails } from './mails.js';
import { Parent } from './parent.js';
import { SETTINGS } from './settings.token.js';
import type { ReplicaSettings } from './settings.js';
import { Steps } from './steps.js';

/** A small application with the jobs it is told to have. */
@Module({})
export class ReplicaModule {
  static with(settings: ReplicaSettings): DynamicModule {
    return {
      module: ReplicaModule,
      imports: [
        DistributedSchedulerModule.forRoot({ ...settings.scheduler, connection: { url: settings.url } }),
        ...(settings.jobs.some(({ pages }) => pages)
          ? [DistributedCronBullMqModule.forRoot({ redeliverAfter: '5s' })]
          : []),
      ],
      providers: [
        { provide: SETTINGS, useValue: settings },
        Parent,
        Freezer,
        Effects,
        Mails,
        Boundaries,
        Calls,
        Steps,
        EventReporter,
        ...settings.jobs.map(jobProvider),
        ...(settings.runTimeHandlers ?? []).map(handlerProvider),
      ],
    };
  }
}
