import {
  Inject,
  Injectable,
  type OnApplicationBootstrap,
  type OnModuleDestroy,
  type OnModuleInit,
} from '@nestjs/common';
import { AlertsService } from '../observe/alerts.service.js';
import { KnownJobs } from '../jobs/known-jobs.js';
import { INSTANCE_ID, SCHEDULER_OPTIONS } from '../options/tokens.js';
import { SchedulerEvents } from '../observe/scheduler-events.js';
import { IdempotencyKeys } from '../runs/idempotency-key.js';
import { InFlightRuns } from '../runs/in-flight-runs.js';
import { SchedulerLogger } from '../observe/scheduler-logger.js';
import { DatabaseWatch } from '../maintenance/database-watch.service.js';
import type { ResolvedSchedulerOptions } from '../options/resolve-options.js';
import { Registration } from '../database/registration.js';
import { InstanceRegistration } from '../jobs/live-instances.service.js';
import { abandonConnections } from '../database/data-sources.js';
import { inWords, withPatience, type Patience } from '../database/retry.js';
import { SchedulerDatabase } from '../database/scheduler-database.js';
import { SchemaStore } from '../database/schema.store.js';
import { Drain, KeepAlive } from './drain.js';
import { Duties } from './duties.js';
import { Registrar } from './registrar.js';
import { within } from '../database/collections.js';

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
