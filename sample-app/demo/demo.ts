import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Arguments } from './arguments.js';
import type { Cleanup } from './cleanup.js';
import { DatabaseClock } from './database-clock.js';
import { openDatabase, type Database } from './database.js';
import { Disasters } from './disasters.js';
import { decideDoubts } from './doubts.js';
import { Fleet, REPLICA_NAMES } from './fleet.js';
import { expectedJobs } from './jobs.js';
import { readLeases } from './leases.js';
import { MailServer } from './mail-server.js';
import { Problem } from './problem.js';
import { CUSTOMERS, seed } from './seed.js';
import { settled } from './settled.js';
import { Narrator } from './terminal/narrator.js';
import { drawPanel } from './terminal/panel.js';
import type { Screen } from './terminal/screen.js';
import type { Colors } from './terminal/style.js';
import { drawVerdict } from './terminal/table.js';
import { reachVerdict, type Verdict } from './verdict/verdict.js';
import { WorkInHand } from './work-in-hand.js';

/** From the moment all replicas are ready. */
const SHOW_MS = 42_000;
const DISASTERS_WITHIN_MS = 90_000;
const CALM_MS = 2_000;
const REDRAW_EVERY_MS = 200;
/** Replicas need a few seconds to start; then the first mailing is due. */
const FIRST_MAILING_IN_S = 5;

export interface Surroundings {
  readonly screen: Screen;
  readonly colors: Colors;
  readonly cleanup: Cleanup;
  /** Aborted by Ctrl-C. */
  readonly signal: AbortSignal;
  readonly env: NodeJS.ProcessEnv;
}

/** The whole demo: starts everything, lets things go wrong, and reads what came of it. */
export class Demo {
  private readonly work = new WorkInHand();
  private readonly mailServer = new MailServer();
  private readonly narrator: Narrator;
  private readonly signal: AbortSignal;
  private database!: Database;
  private fleet!: Fleet;
  private startedAt = performance.now();

  constructor(
    private readonly args: Arguments,
    private readonly around: Surroundings,
  ) {
    this.narrator = new Narrator(around.screen, around.colors, this.work);
    this.signal = around.signal;
  }

  async run(): Promise<Verdict> {
    const expected = expectedJobs(await this.start());
    const clock = await DatabaseClock.ask(this.database.dataSource);
    const from = clock.now();
    const disasters = new Disasters(
      this.fleet,
      this.mailServer,
      this.work,
      expected,
      clock,
      from,
      (text, replica) => this.narrator.act(text, replica),
      this.signal,
    );
    const calm = disasters.run().then(() => this.sleep(CALM_MS));
    await this.within(DISASTERS_WITHIN_MS, Promise.all([calm, this.sleep(SHOW_MS)]));
    const window = { from, to: clock.now() };
    await settled(this.database, expected, window, this.signal);
    const doubts = await decideDoubts(
      this.database,
      this.mailServer,
      this.fleet,
      window,
      (text) => this.narrator.act(text),
      this.signal,
    );
    await settled(this.database, expected, window, this.signal);
    const verdict = await reachVerdict({
      database: this.database,
      mailServer: this.mailServer,
      expected,
      window,
      strikes: disasters.strikes,
      doubts,
      unexpectedEnds: this.fleet.unexpectedEnds(),
      nameOf: (instanceId) => this.work.nameOf(instanceId),
    });
    for (const line of drawVerdict(verdict, this.around.colors)) this.around.screen.line(line);
    return verdict;
  }

  /** Goes on until Ctrl-C. */
  async keep(): Promise<void> {
    this.narrator.say(
      `It goes on until Ctrl-C. The database: ${this.around.env.DATABASE_URL ? this.database.description : `${this.database.url}, schema ${this.database.schema}`}`,
    );
    await this.interrupted();
  }

  /** Lets running handlers end; Ctrl-C ends the waiting. */
  async stop(): Promise<void> {
    this.narrator.say('Stopping: what is running may end');
    await Promise.race([this.fleet.stop(), this.interrupted()]);
  }

  /** @returns the phase of the schedules */
  private async start(): Promise<number> {
    const { cleanup, env } = this.around;
    const smtpPort = await this.mailServer.listen(this.args.smtpPort);
    cleanup.add(() => this.mailServer.close());
    this.narrator.say(
      env.DATABASE_URL
        ? 'Connecting to the PostgreSQL server of DATABASE_URL'
        : 'Starting an embedded PostgreSQL server',
    );
    this.database = await openDatabase(env.DATABASE_URL, cleanup, this.signal);
    await seed(this.database.dataSource);
    this.signal.throwIfAborted();
    this.narrator.say(`PostgreSQL: ${this.database.description}. SMTP: 127.0.0.1:${smtpPort}. ${CUSTOMERS} customers`);
    const phase = (new Date().getSeconds() + FIRST_MAILING_IN_S) % 15;
    await this.startFleet(smtpPort, phase);
    return phase;
  }

  private async startFleet(smtpPort: number, phase: number): Promise<void> {
    const { url, schema } = this.database;
    const env = {
      DATABASE_URL: url,
      DATABASE_SCHEMA: schema,
      SMTP_PORT: String(smtpPort),
      SCHEDULE_PHASE: String(phase),
    };
    this.fleet = new Fleet(env, ({ name }, message) => {
      if (message.kind === 'event') this.work.hear(name, message.event);
      this.narrator.hear(name, message);
    });
    this.mailServer.onMail = (mail) => this.narrator.mail(mail);
    this.around.cleanup.add(() => this.fleet.destroy());
    this.watch();
    await this.fleet.start(this.signal);
    this.startedAt = performance.now();
    this.narrator.say(
      `Replicas ${REPLICA_NAMES.join(', ')} are ready (processes ${this.fleet
        .list()
        .map(({ pid }) => pid)
        .join(', ')})`,
    );
  }

  /** Keeps the panel below the lines up to date. */
  private watch(): void {
    const { screen, colors, cleanup } = this.around;
    const redraw = async (): Promise<void> => {
      const leases = await readLeases(this.database).catch(() => []);
      const seconds = (performance.now() - this.startedAt) / 1_000;
      const { fleet, mailServer, narrator } = this;
      screen.panel(
        drawPanel({ fleet, leases, mailServer, narrator, nameOf: (id) => this.work.nameOf(id), seconds }, colors),
      );
    };
    const timer = setInterval(() => void redraw(), REDRAW_EVERY_MS);
    cleanup.add(() => clearInterval(timer));
  }

  private async within(ms: number, work: Promise<unknown>): Promise<void> {
    let timer: NodeJS.Timeout;
    const tooLate = new Promise<never>((_, reject) => {
      const problem = new Problem(
        'This machine is too busy: there was no mailing to kill and freeze a replica in. Try again when it has less to do.',
      );
      timer = setTimeout(() => reject(problem), ms);
    });
    await Promise.race([work, tooLate]).finally(() => clearTimeout(timer));
  }

  private async interrupted(): Promise<void> {
    if (!this.signal.aborted) await once(this.signal, 'abort');
  }

  private async sleep(ms: number): Promise<void> {
    await sleep(ms, undefined, { signal: this.signal });
  }
}
