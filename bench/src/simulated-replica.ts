import { EMPTY } from 'rxjs';
import { SchedulerEvents } from '../../dist/lib/index.js';
import { Test, type TestingModule } from '@nestjs/testing';
import { INSTANCE_ID, SCHEDULER_OPTIONS } from '../../dist/lib/options/tokens.js';
import type { JobDefinition } from '../../dist/lib/options/job-definition.js';
import type { OwnedRun } from '../../dist/lib/options/run.js';
import { ClaimService } from '../../dist/lib/runs/claim.service.js';
import { EndWriter } from '../../dist/lib/runs/end-writer.js';
import { DueRuns } from '../../dist/lib/runs/agenda.js';
import { ExecutorService, RunStarter } from '../../dist/lib/runs/executor.service.js';
import { WakeUps } from '../../dist/lib/observe/wake-ups.js';
import { InFlightRun, InFlightRuns } from '../../dist/lib/runs/in-flight-runs.js';
import { DONE } from '../../dist/lib/runs/outcome.js';
import { ReaperService } from '../../dist/lib/runs/reaper.service.js';
import { DatabaseTime } from '../../dist/lib/database/clock.js';
import { ClaimOrder } from '../../dist/lib/runs/claim-order.js';
import { JobCursor, JobCursors } from '../../dist/lib/jobs/job-cursors.js';
import { InstanceRegistration, UnregisteredJobs } from '../../dist/lib/jobs/live-instances.service.js';
import { PollPace, ScheduleFollower } from '../../dist/lib/jobs/schedule-follower.service.js';
import { Rewinding, WatermarkService } from '../../dist/lib/jobs/watermark.service.js';
import { TickerService } from '../../dist/lib/runs/ticker.service.js';
import { WaitingRuns } from '../../dist/lib/runs/waiting-runs.service.js';
import { fakedNeighbours, fakedStores, type Surroundings } from './simulated-surroundings.js';

/** The services that decide what is asked and when, as they are: what is faked is what they ask, and the handlers. */
const REAL = [
  DueRuns,
  RunStarter,
  ClaimOrder,
  ClaimService,
  EndWriter,
  InFlightRuns,
  InstanceRegistration,
  PollPace,
  ReaperService,
  Rewinding,
  ScheduleFollower,
  TickerService,
  JobCursors,
  UnregisteredJobs,
  WaitingRuns,
  WakeUps,
  WatermarkService,
];

/** A replica that takes part from now on. How many runs it won is told. */
export class SimulatedReplica {
  won = 0;
  private readonly jobs: ReadonlyMap<string, JobDefinition>;

  private constructor(
    private readonly app: TestingModule,
    private readonly around: Surroundings,
  ) {
    this.jobs = new Map(around.jobs.map((job) => [job.name, job]));
  }

  static async of(id: string, around: Surroundings): Promise<SimulatedReplica> {
    let replica: SimulatedReplica;
    const providers = [
      ...REAL,
      { provide: SCHEDULER_OPTIONS, useValue: around.options },
      { provide: INSTANCE_ID, useValue: id },
      { provide: DatabaseTime, useFactory: () => new DatabaseTime() },
      { provide: ExecutorService, useValue: { start: (owned: readonly OwnedRun[]) => replica.execute(owned) } },
      { provide: SchedulerEvents, useValue: { emit: () => undefined, of: () => EMPTY } },
      ...fakedStores(id, around),
      ...fakedNeighbours(around),
    ];
    const app = await Test.createTestingModule({ providers })
      .useMocker(() => silent)
      .compile();
    replica = new SimulatedReplica(app, around);
    return replica;
  }

  start(): void {
    const { time, jobs } = this.around;
    this.get(WakeUps).areHeard = true;
    this.get(DatabaseTime).observe(time.date, time.now);
    for (const job of jobs) this.get(JobCursors).set(new JobCursor(job, time.date.getTime()));
    for (const service of [ScheduleFollower, ReaperService, WatermarkService, TickerService])
      this.get<{ start(): void }>(service).start();
  }

  private execute(owned: readonly OwnedRun[]): void {
    this.won += owned.length;
    if (owned.length > 0) this.get(ScheduleFollower).lookAtNextPoll();
    for (const one of owned) void this.run(new InFlightRun(one, this.jobs.get(one.jobName)!));
  }

  private async run(run: InFlightRun): Promise<void> {
    const runs = this.get(InFlightRuns);
    runs.add(run);
    await this.around.time.pass(this.around.handlerMs());
    await this.get(EndWriter).write(run.owned, DONE);
    runs.remove(run);
    this.get(ReaperService).runEnded();
    this.get(TickerService).runEnded();
  }

  private get<Service>(service: abstract new (...args: never[]) => Service): Service {
    return this.app.get<Service>(service as never);
  }
}

/** Whoever is asked for nothing here answers nothing. */
const silent: unknown = new Proxy(
  {},
  { get: (_, property) => (property === 'then' || typeof property === 'symbol' ? undefined : () => undefined) },
);
