import { Test, type TestingModule } from '@nestjs/testing';
import { KnownJobs } from '../../dist/lib/discovery/known-jobs.js';
import { INSTANCE_ID, SCHEDULER_OPTIONS } from '../../dist/lib/distributed-scheduler.tokens.js';
import type { JobDefinition } from '../../dist/lib/domain/job-definition.js';
import type { OwnedRun } from '../../dist/lib/domain/runs/run.js';
import { ClaimService } from '../../dist/lib/execution/claim.service.js';
import { EndWriter } from '../../dist/lib/execution/end-writer.js';
import { ExecutorService } from '../../dist/lib/execution/executor.service.js';
import { FlagAnswers } from '../../dist/lib/execution/flag-answers.js';
import { InFlightRun, InFlightRuns } from '../../dist/lib/execution/in-flight-runs.js';
import { ReaperService } from '../../dist/lib/maintenance/reaper.service.js';
import type { ResolvedSchedulerOptions } from '../../dist/lib/options/resolve-options.js';
import { DatabaseTime } from '../../dist/lib/runtime/database-time.js';
import { Slots } from '../../dist/lib/runtime/slots.js';
import { ClaimOrder } from '../../dist/lib/scheduling/claim-order.js';
import { FollowedSchedules } from '../../dist/lib/scheduling/followed-schedules.js';
import { JobTimeline } from '../../dist/lib/scheduling/job-timeline.js';
import { OwnPresence } from '../../dist/lib/scheduling/own-presence.service.js';
import { ScheduleFollower } from '../../dist/lib/scheduling/schedule-follower.service.js';
import { TickerService } from '../../dist/lib/scheduling/ticker.service.js';
import { Timelines } from '../../dist/lib/scheduling/timelines.js';
import { UnregisteredJobs } from '../../dist/lib/scheduling/unregistered-jobs.service.js';
import { WaitingRuns } from '../../dist/lib/scheduling/waiting-runs.service.js';
import { WatermarkService } from '../../dist/lib/scheduling/watermark.service.js';
import { Cancellations } from '../../dist/lib/execution/cancellations.js';
import { JobInstanceStore } from '../../dist/lib/store/jobs/job-instance.store.js';
import { JobScheduleStore } from '../../dist/lib/store/jobs/job-schedule.store.js';
import { ClaimStore, type DueOccurrence } from '../../dist/lib/store/runs/claim.store.js';
import { JobRunStore } from '../../dist/lib/store/runs/job-run.store.js';
import { ReaperStore } from '../../dist/lib/store/runs/reaper.store.js';
import { RunEndsStore, type RunEnd } from '../../dist/lib/store/runs/run-ends.store.js';
import type { RunKey } from '../../dist/lib/domain/runs/run.js';
import type { SimulatedDatabase } from './simulated-database.js';
import type { SimulatedTime } from './simulated-time.js';
import type { StatementKind } from './statement-costs.js';

/** All that a replica lives in. */
export interface Surroundings {
  readonly time: SimulatedTime;
  readonly database: SimulatedDatabase;
  readonly options: ResolvedSchedulerOptions;
  readonly jobs: readonly JobDefinition[];
  /** The ids of all replicas. */
  readonly company: readonly string[];
  /** Milliseconds from a replica to the database and back. */
  readonly roundTripMs: number;
  /** How long a handler takes, in milliseconds; asked for each run. */
  readonly handlerMs: () => number;
}

/** The services that decide what is asked and when, as they are: what is faked is what they ask, and the handlers. */
const REAL = [ClaimOrder, ClaimService, EndWriter, InFlightRuns, OwnPresence, ReaperService, ScheduleFollower, TickerService, Timelines, UnregisteredJobs, WatermarkService];

/** A replica that takes part from now on. How many runs it won is told. */
export class SimulatedReplica {
  won = 0;

  private constructor(
    private readonly app: TestingModule,
    private readonly around: Surroundings,
  ) {}

  static async of(id: string, around: Surroundings): Promise<SimulatedReplica> {
    let replica: SimulatedReplica;
    const providers = [
      ...REAL,
      { provide: SCHEDULER_OPTIONS, useValue: around.options },
      { provide: INSTANCE_ID, useValue: id },
      { provide: DatabaseTime, useFactory: () => new DatabaseTime() },
      { provide: ExecutorService, useValue: { start: (owned: readonly OwnedRun[]) => replica.execute(owned) } },
      ...fakedStores(id, around),
      ...fakedNeighbours(around),
    ];
    const app = await Test.createTestingModule({ providers }).useMocker(() => silent).compile();
    replica = new SimulatedReplica(app, around);
    return replica;
  }

  start(): void {
    const { time, jobs } = this.around;
    this.get(DatabaseTime).observe(time.date, time.now);
    for (const job of jobs) this.get(Timelines).set(new JobTimeline(job, time.date.getTime()));
    for (const service of [ScheduleFollower, ReaperService, WatermarkService, TickerService]) this.get<{ start(): void }>(service).start();
  }

  private execute(owned: readonly OwnedRun[]): void {
    this.won += owned.length;
    const jobs = new Map(this.around.jobs.map((job) => [job.name, job]));
    for (const one of owned) void this.run(new InFlightRun(one, jobs.get(one.jobName)!));
  }

  private async run(run: InFlightRun): Promise<void> {
    const runs = this.get(InFlightRuns);
    runs.add(run);
    await this.around.time.pass(this.around.handlerMs());
    await this.get(EndWriter).write(run.owned, null);
    runs.remove(run);
    this.get(ReaperService).runEnded();
    this.get(TickerService).runEnded();
  }

  private get<Service>(service: abstract new (...args: never[]) => Service): Service {
    return this.app.get<Service>(service as never);
  }
}

/** What is asked goes to the one database, over as many connections as the module has. */
function fakedStores(id: string, { time, database, company, roundTripMs, options, jobs }: Surroundings) {
  const pool = new Slots(options.poolSize);
  const overTheWire = <Answer>(ask: () => Promise<Answer>): Promise<Answer> =>
    pool.run(async () => {
      await time.pass(roundTripMs / 2);
      const answer = await ask();
      await time.pass(roundTripMs / 2);
      return answer;
    });
  const statement = <Answer>(kind: StatementKind, answer: () => Answer, size = 0) => overTheWire(async () => {
    await database.ask(kind, size);
    return answer();
  });
  const written = { kind: 'written', end: { status: 'done', reason: null } } as const;
  const looked = () => ({ databaseNow: time.date, present: true, company, backfilling: false, jobs: [], cancels: [], flagsOff: [] });
  const outlook = () => ({ databaseNow: time.date, nextExpiry: null, nextAttempt: null, removedWait: false });
  return [
    { provide: ClaimStore, useValue: { claimDue: (due: readonly DueOccurrence[]) => overTheWire(() => database.claim(due, id)), withRow: (keys: readonly RunKey[]) => overTheWire(() => database.look(keys, id)) } },
    { provide: RunEndsStore, useValue: { endAll: (ends: readonly RunEnd[]) => statement('end', () => ends.map(() => written), ends.length) } },
    { provide: JobRunStore, useValue: { complete: () => statement('end', () => written.end, 1) } },
    { provide: JobScheduleStore, useValue: { lookIn: () => statement('presence', looked), remember: () => statement('watermark', () => undefined, jobs.length) } },
    { provide: JobInstanceStore, useValue: { orphanRunsOf: () => statement('unregistered', () => []), unregistered: () => statement('unregistered', () => []) } },
    { provide: ReaperStore, useValue: { outlook: () => statement('outlook', outlook) } },
  ];
}

/** Neighbours with nothing to say: no flags, no backlog, no changed schedule. */
function fakedNeighbours({ jobs }: Surroundings) {
  const registered = jobs.map((definition) => ({ definition, handler: () => {} }));
  const none: never[] = [];
  return [
    { provide: KnownJobs, useValue: { runnable: () => registered, names: () => jobs.map(({ name }) => name), declared: { jobs: registered, handlers: new Map() } } },
    { provide: FlagAnswers, useValue: { off: async () => new Map() } },
    { provide: WaitingRuns, useValue: { startBefore: async () => {}, start: async () => 0 } },
    { provide: FollowedSchedules, useValue: { take: () => {}, started: () => {}, forget: () => {}, contests: 0, contestedJobs: none } },
    { provide: Cancellations, useValue: { flags: none, apply: () => {} } },
  ];
}

/** Whoever is asked for nothing here answers nothing. */
const silent: unknown = new Proxy({}, { get: (_, property) => (property === 'then' || typeof property === 'symbol' ? undefined : () => undefined) });
