import { Injectable } from '@nestjs/common';
import { planCatchUp } from '../domain/catch-up.js';
import { SchedulerEvents } from '../events/scheduler-events.js';
import { CatchUpStore } from '../store/catch-up.store.js';
import type { JobTimeline } from './job-timeline.js';

/** Decides about occurrences that nobody ran in time: after an outage, a freeze, or when every replica was down. */
@Injectable()
export class CatchUpService {
  constructor(
    private readonly store: CatchUpStore,
    private readonly events: SchedulerEvents,
  ) {}

  /** Leaves every missed occurrence of the job decided: recorded, or queued for whoever has room. */
  async catchUp(timeline: JobTimeline): Promise<void> {
    const { job } = timeline;
    const plan = await this.store.decide(job, timeline.decidedUntil, (seen) => planCatchUp(job.schedule, seen, seen.decided, job));
    timeline.decideUntil(plan.decidedUntil);
    const spans = [...plan.record, ...plan.run.map((fireTime) => ({ from: fireTime, until: fireTime, count: 0 }))];
    if (spans.length > 0) {
      this.events.emit({
        type: 'run.missed',
        jobName: job.name,
        queued: plan.run.map((fireTime) => new Date(fireTime)),
        recorded: plan.record.reduce((sum, { count }) => sum + count, 0),
        from: new Date(Math.min(...spans.map(({ from }) => from))),
        until: new Date(Math.max(...spans.map(({ until }) => until))),
      });
    }
  }
}
