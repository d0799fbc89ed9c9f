import { jest } from '@jest/globals';
import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { Attempt, Opening, Report } from '../replica/messages.js';
import type { ReplicaSettings, Step } from '../replica/settings.js';
import type { EventOf, SchedulerFact } from '../../../lib/observe/scheduler-event.js';
import { Reports } from './reports.js';

const PROGRAM = fileURLToPath(new URL('../replica/dist/main.js', import.meta.url));

/**
 * Bounds are for a machine with much else to do: they end a test that hangs, and measure nothing. A boot took 40 s on
 * one.
 */
const PATIENCE_MS = 90_000;

/** So is that of a test or hook that names none: it has room for some of those waits. */
jest.setTimeout(4 * PATIENCE_MS);

/** How a process ended. */
export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** One occurrence, or any of a job, or any at all. */
export type Which = Partial<Attempt>;

/** A replica: a real process with a real application, to be killed, frozen and asked. */
export class Replica {
  private static readonly alive = new Set<ChildProcess>();
  private readonly reports: Reports;
  private readonly process: ChildProcess;
  private words = '';
  private calls = 0;
  /** Resolves when the process has ended. */
  readonly exit: Promise<Exit>;

  private constructor(
    readonly settings: ReplicaSettings,
    env: Readonly<Record<string, string>>,
    program: string,
  ) {
    this.reports = new Reports(settings.name);
    this.process = fork(program, [], {
      execArgv: [],
      env: { ...environment(), ...env, REPLICA: JSON.stringify(settings) },
      serialization: 'advanced',
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    });
    Replica.alive.add(this.process);
    for (const pipe of [this.process.stdout!, this.process.stderr!]) {
      pipe.setEncoding('utf8').on('data', (text: string) => (this.words = (this.words + text).slice(-3_000)));
    }
    this.process.on('message', (report: Report) => this.reports.hear(report));
    // Not 'exit': what it has told may still be on the way.
    this.exit = once(this.process, 'close').then(([code, signal]) => {
      Replica.alive.delete(this.process);
      this.reports.close(`it ended with ${signal ?? `code ${code}`}, saying:\n${this.words}`);
      return { code, signal } as Exit;
    });
  }

  /** Starts the process; it may not be ready yet. */
  static fork(settings: ReplicaSettings, env: Readonly<Record<string, string>> = {}, program = PROGRAM): Replica {
    return new Replica(settings, env, program);
  }

  /** Ends all that are left when the tests end before their replicas. */
  static endAll(): void {
    for (const process of Replica.alive) process.kill('SIGKILL');
  }

  get name(): string {
    return this.settings.name;
  }

  /** What it wrote last to its stdout and stderr. */
  get said(): string {
    return this.words;
  }

  get isAlive(): boolean {
    return Replica.alive.has(this.process);
  }

  async ready(): Promise<this> {
    await this.reports.waitFor(
      'the application to be up',
      (report) => (report.kind === 'ready' ? report : undefined),
      PATIENCE_MS,
    );
    return this;
  }

  /** Waits until it has loaded everything, see `standsBy`. */
  async standingBy(): Promise<this> {
    await this.reports.waitFor(
      'the process to stand by',
      (report) => (report.kind === 'standing by' ? report : undefined),
      PATIENCE_MS,
    );
    return this;
  }

  /** Has a process start its application that stood by. */
  begin(): void {
    this.process.send({ begin: true }, () => undefined);
  }

  /** The name this process has in the database. */
  get instanceId(): string {
    return this.heard('scheduler.started')[0]!.instanceId;
  }

  /** The events of a type so far. */
  heard<Type extends SchedulerFact['type']>(type: Type, which: Which = {}): EventOf<Type>[] {
    return this.reports.all((report) => eventOf(report, type, which));
  }

  /** Waits for an event, also one that was before. */
  event<Type extends SchedulerFact['type']>(type: Type, which: Which = {}): Promise<EventOf<Type>> {
    return this.reports.waitFor(
      `${type} ${JSON.stringify(which)}`,
      (report) => eventOf(report, type, which),
      PATIENCE_MS,
    );
  }

  /** Waits for a handler to stand at a gate. */
  atGate(gate: string, which: Which = {}): Promise<Attempt> {
    const pick = (report: Report): Attempt | undefined => {
      if (report.kind !== 'gate' || report.gate !== gate || !matches(report, which)) return undefined;
      const { jobName, fireTime, attempt } = report;
      return { jobName, fireTime, attempt };
    };
    return this.reports.waitFor(`gate "${gate}" ${JSON.stringify(which)}`, pick, PATIENCE_MS);
  }

  /** Waits for the process to stop or end itself, see `freezeTogether` and `Strike`. */
  async freezing(withinMs = PATIENCE_MS): Promise<void> {
    await this.reports.waitFor(
      'the process to freeze',
      (report) => (report.kind === 'freezing' ? report : undefined),
      withinMs,
    );
  }

  /** Lets the handler of one attempt pass, after some more steps. */
  open(gate: string, { jobName, fireTime, attempt }: Attempt, steps: readonly Step[] = []): void {
    const opening: Opening = { gate, jobName, fireTime, attempt, steps };
    if (this.process.connected) this.process.send(opening, () => undefined);
  }

  /** Calls a method of a service in the replica. @returns what it returned; an error is thrown as text */
  async call<Result>(service: string, method: string, ...args: readonly unknown[]): Promise<Result> {
    const id = ++this.calls;
    this.process.send({ call: { id, service, method, args } }, () => undefined);
    const { value, error } = await this.reports.waitFor(
      `the answer of ${service}.${method}`,
      (report) => (report.kind === 'answer' && report.id === id ? report : undefined),
      PATIENCE_MS,
    );
    if (error !== null) throw new Error(`${service}.${method}: ${error}`);
    return value as Result;
  }

  async kill(): Promise<void> {
    this.process.kill('SIGKILL');
    await this.exit;
  }

  get pid(): number {
    return this.process.pid!;
  }

  freeze(): void {
    this.process.kill('SIGSTOP');
  }

  thaw(): void {
    this.process.kill('SIGCONT');
  }

  /** Asks the process to end, as an orchestrator does. */
  async stop(): Promise<Exit> {
    this.process.kill('SIGTERM');
    return this.exit;
  }
}

process.on('exit', () => Replica.endAll());

/** Without what Jest set for itself: a replica is no test. */
function environment(): NodeJS.ProcessEnv {
  const { NODE_ENV: _, JEST_WORKER_ID: __, NODE_OPTIONS: ___, ...env } = process.env;
  return env;
}

function eventOf<Type extends SchedulerFact['type']>(
  report: Report,
  type: Type,
  which: Which,
): EventOf<Type> | undefined {
  if (report.kind !== 'event' || report.event.type !== type || !matches(report.event as Which, which)) return undefined;
  return report.event as EventOf<Type>;
}

function matches(facts: Which, { jobName, fireTime, attempt }: Which): boolean {
  return (
    (jobName === undefined || facts.jobName === jobName) &&
    (fireTime === undefined || facts.fireTime?.getTime() === fireTime.getTime()) &&
    (attempt === undefined || facts.attempt === attempt)
  );
}
