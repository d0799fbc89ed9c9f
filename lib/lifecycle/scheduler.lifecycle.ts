import {
  Inject,
  Injectable,
  type OnApplicationBootstrap,
  type OnModuleDestroy,
  type OnModuleInit,
} from '@nestjs/common';
import { BackfillService } from '../catch-up/backfill-feed.service.js';
import { DatabaseTime } from '../database/clock.js';
import { within } from '../database/collections.js';
import { abandonConnections } from '../database/data-sources.js';
import { Registration } from '../database/registration.js';
import { inWords, type Patience, withPatience } from '../database/retry.js';
import { SchedulerDatabase } from '../database/scheduler-database.js';
import { SchemaStore } from '../database/schema.store.js';
import { PageQueues } from '../fan-out/page-queues.js';
import { JobCursors } from '../jobs/job-cursors.js';
import { JobExplorer } from '../jobs/job.explorer.js';
import { KnownJobs } from '../jobs/known-jobs.js';
import { InstanceRegistration } from '../jobs/live-instances.service.js';
import { ScheduleFollower } from '../jobs/schedule-follower.service.js';
import { Drain, KeepAlive } from './drain.js';
import { Duties } from './duties.js';
import { DatabaseWatch } from '../maintenance/watches.service.js';
import { AlertsService } from '../observe/alerts.service.js';
import { SchedulerEvents } from '../observe/scheduler-events.js';
import { SchedulerLogger } from '../observe/scheduler-logger.js';
import type { JobDefinition } from '../options/job-definition.js';
import type { ResolvedSchedulerOptions } from '../options/resolve-options.js';
import { INSTANCE_ID, SCHEDULER_OPTIONS } from '../options/tokens.js';
import { Cancellations } from '../runs/cancellations.js';
import { ClaimOrder } from '../runs/claim-order.js';
import { IdempotencyKeys } from '../runs/idempotency-key.js';
import { InFlightRuns } from '../runs/in-flight-runs.js';

/** Gathers what the code declares, writes it to the database, and tells what will happen. */
@Injectable()
export class Registrar {
  constructor(
    private readonly explorer: JobExplorer,
    private readonly known: KnownJobs,
    private readonly pageQueues: PageQueues,
    private readonly follower: ScheduleFollower,
    private readonly cursors: JobCursors,
    private readonly events: SchedulerEvents,
    private readonly time: DatabaseTime,
    private readonly logger: SchedulerLogger,
  ) {}

  /** False while Nest is still making instances. */
  get mayGather(): boolean {
    return this.explorer.mayExplore;
  }

  /** Finds everything that is wrong with the code, before the database is touched. */
  async gather(): Promise<void> {
    this.known.declare(this.explorer.explore());
    this.pageQueues.require();
    await this.explorer.prepare();
  }

  async register(): Promise<void> {
    await this.follower.declare();
    this.logger.listJobs(this.scheduled(), this.now);
    this.events.of('job.scheduled').subscribe(({ jobName, updated }) => {
      const cursor = this.cursors.get(jobName);
      if (cursor && !updated) this.logger.warnOf(cursor.job, this.now);
    });
  }

  /** Without those that go on under a former name: what holds of them is told as `job.contested`. */
  private scheduled(): JobDefinition[] {
    return this.known.list().flatMap(({ definition }) => this.cursors.get(definition.name)?.job ?? []);
  }

  private get now(): Date {
    return new Date(this.time.now());
  }
}

/** Has the follower of schedules ask for what runs and backfills go by, and tell them what it found. */
@Injectable()
export class LooksBesides {
  constructor(
    follower: ScheduleFollower,
    cancellations: Cancellations,
    runs: InFlightRuns,
    order: ClaimOrder,
    backfills: BackfillService,
  ) {
    follower.looksBesidesFor({
      flags: () => cancellations.flags,
      isBusy: () => runs.size > 0,
      tell: (seen) => {
        cancellations.apply(seen);
        order.hear(seen.peers);
        if (seen.backfilling) backfills.wake();
      },
    });
  }
}

/** How long statements under way get at least, in milliseconds: a claim that is given up waits for its lease to end. */
const ANSWER_WITHIN_MS = 2_000;

/** How long the pools get to end, in milliseconds: they wait for statements that nobody may answer any more. */
const CLOSE_WITHIN_MS = 2_000;

/** How long the alert sink gets at the end, in milliseconds, for what it has not been told yet. */
const ALERT_WITHIN_MS = 2_000;

/** Brings the scheduler up when the application starts, and down when it closes, in the order that loses nothing. */
@Injectable()
export class SchedulerLifecycle implements OnModuleInit, OnApplicationBootstrap, OnModuleDestroy {
  private registered: Promise<void> | null = null;
  private starting: Promise<unknown> | null = null;
  private started = false;
  private closed = false;
  private closing: Promise<void> | null = null;

  constructor(
    @Inject(SCHEDULER_OPTIONS) private readonly options: ResolvedSchedulerOptions,
    @Inject(INSTANCE_ID) private readonly instanceId: string,
    private readonly known: KnownJobs,
    private readonly database: SchedulerDatabase,
    private readonly schema: SchemaStore,
    private readonly registrar: Registrar,
    private readonly presence: InstanceRegistration,
    private readonly duties: Duties,
    private readonly drain: Drain,
    private readonly runs: InFlightRuns,
    private readonly keepAlive: KeepAlive,
    private readonly events: SchedulerEvents,
    private readonly logger: SchedulerLogger,
    private readonly databaseWatch: DatabaseWatch,
    private readonly alerts: AlertsService,
    private readonly keys: IdempotencyKeys,
    registration: Registration,
  ) {
    registration.startsWith(() => (this.registered || registrar.mayGather ? this.registering() : null));
  }

  /** Everything that is wrong with the code or the database is found here, before anything runs. */
  async onModuleInit(): Promise<void> {
    await this.registering();
  }

  /** Once: here, or before, where another provider's `onModuleInit` asks for something. */
  private registering(): Promise<void> {
    this.registered ??= this.closingOnFailure(async () => {
      await this.registrar.gather();
      this.logger.listen();
      this.databaseWatch.listen();
      await this.alerts.listen();
      const { embeddedServer } = this.database;
      if (embeddedServer) {
        this.logger.say(
          `No database is configured: started an embedded PostgreSQL on 127.0.0.1:${embeddedServer.port} for this process alone. ` +
            `Its data (${embeddedServer.dataDirectory}) go when it ends. Set DATABASE_URL or forRoot({ connection }) to use yours.`,
        );
      }
      await withPatience(this.patience, () => this.register());
    });
    return this.registered;
  }

  private async register(): Promise<void> {
    if (this.options.migrate) await this.schema.migrate();
    const newer = await this.schema.verify();
    if (newer !== null) this.logger.warn(newer);
    await this.keys.read();
    await this.registrar.register();
  }

  /** The last of the application's start: what handlers use is there. */
  async onApplicationBootstrap(): Promise<void> {
    if (!this.options.enabled) return this.logger.say('Not enabled: this instance claims nothing');
    await this.closingOnFailure(async () => {
      const starting = this.makeReady();
      this.starting = starting;
      // It took longer than the close was ready to wait: nobody else would stop it.
      if (!(await starting) || this.closed) return this.stopDuties();
      this.duties.start();
      this.started = true;
      this.keepAlive.hold();
      this.events.emit({ type: 'scheduler.started', instanceId: this.instanceId, jobs: this.known.list().length });
    });
  }

  /** The first of the application's end (see `HookOrder`): what handlers use is still there. */
  async onModuleDestroy(): Promise<void> {
    this.closing ??= this.close();
    await this.closing;
  }

  private async close(): Promise<void> {
    await within(this.options.shutdownTimeoutMs, this.starting ?? Promise.resolve()).catch(() => {});
    this.closed = true;
    if (this.started) {
      this.events.emit({ type: 'scheduler.stopping', instanceId: this.instanceId, running: this.runs.size });
      const answered = await within(
        Math.max(this.options.shutdownTimeoutMs, ANSWER_WITHIN_MS),
        this.duties.stopClaiming(),
      );
      const left = within(ANSWER_WITHIN_MS, this.presence.leave()).catch(() => {});
      const abandoned = await this.drain.drain();
      await left;
      // A claim that is answered from now on would start a handler.
      if (!answered) abandonConnections(this.database.coordination);
      await this.duties.stop();
      this.keepAlive.release();
      this.events.emit({ type: 'scheduler.stopped', instanceId: this.instanceId, abandoned });
    }
    // A start that failed may have said that it is there.
    if (!this.started) await within(ANSWER_WITHIN_MS, this.presence.leave()).catch(() => {});
    await this.deliverAlerts();
    this.events.close();
    await this.closeDatabase();
  }

  private async deliverAlerts(): Promise<void> {
    await within(ALERT_WITHIN_MS, this.alerts.stop());
    this.alerts.abandon();
  }

  private async closeDatabase(): Promise<void> {
    const closing = this.database.close();
    if (await within(CLOSE_WITHIN_MS, closing)) return;
    abandonConnections(this.database.coordination);
    // A server of this process' own is never silent, and must not outlive it.
    if (this.database.embeddedServer) await closing;
  }

  /** @returns false when the application closes: nobody waits for the database any longer */
  private async makeReady(): Promise<boolean> {
    return withPatience(this.patience, async () => {
      if (this.closing) return false;
      await this.duties.makeReady();
      return true;
    });
  }

  private get patience(): Patience {
    return { waitMs: this.options.waitForDatabaseMs, tell: (text) => this.logger.warn(text) };
  }

  private async stopDuties(): Promise<void> {
    await this.duties.stopClaiming();
    await this.duties.stop();
  }

  /** Nest calls no shutdown hook when the start fails, and an open connection would keep the process from ending. */
  private async closingOnFailure(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      await this.onModuleDestroy().catch(() => {});
      throw inWords(error);
    }
  }
}
