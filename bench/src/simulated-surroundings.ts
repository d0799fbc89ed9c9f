import { KnownJobs } from '../../dist/lib/jobs/known-jobs.js';
import type { JobDefinition } from '../../dist/lib/options/job-definition.js';
import { FlagAnswers } from '../../dist/lib/runs/flag-answers.js';
import type { ResolvedSchedulerOptions } from '../../dist/lib/options/resolve-options.js';
import { Slots } from '../../dist/lib/database/collections.js';
import { FollowedSchedules } from '../../dist/lib/jobs/followed-schedules.js';
import { Cancellations } from '../../dist/lib/runs/cancellations.js';
import { JobInstanceStore } from '../../dist/lib/jobs/job-instance.store.js';
import { JobScheduleStore } from '../../dist/lib/jobs/job-schedule.store.js';
import type { DueOccurrence } from '../../dist/lib/runs/claim.js';
import { ReapingRepository } from '../../dist/lib/runs/reaping.repository.js';
import { JobRunRepository, type EndedAttempt } from '../../dist/lib/runs/job-run.repository.js';
import type { OwnedRun, RunKey } from '../../dist/lib/options/run.js';
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

/** What is asked goes to the one database, over as many connections as the module has. */
export function fakedStores(id: string, { time, database, company, roundTripMs, options, jobs }: Surroundings) {
  const pool = new Slots(options.poolSize);
  const overTheWire = <Answer>(ask: () => Promise<Answer>): Promise<Answer> =>
    pool.run(async () => {
      await time.pass(roundTripMs / 2);
      const answer = await ask();
      await time.pass(roundTripMs / 2);
      return answer;
    });
  const statement = <Answer>(kind: StatementKind, answer: () => Answer, size = 0) =>
    overTheWire(async () => {
      await database.ask(kind, size);
      return answer();
    });
  const ended = (run: OwnedRun) => {
    database.end(run);
    return { kind: 'written', end: { status: 'done', reason: null } } as const;
  };
  const looked = () => ({
    databaseNow: time.date,
    present: true,
    company,
    peers: company,
    backfilling: false,
    jobs: [],
    cancels: [],
    flagsOff: [],
  });
  const outlook = () => ({
    now: time.date,
    nextExpiry: database.nextExpiry,
    nextAttempt: null,
    removedWait: false,
    strays: false,
  });
  return [
    {
      provide: JobRunRepository,
      useValue: {
        claimDue: (due: readonly DueOccurrence[]) => overTheWire(() => database.claim(due, id)),
        withRow: (keys: readonly RunKey[]) => overTheWire(() => database.look(keys, id)),
        endAll: (ends: readonly EndedAttempt[]) =>
          statement('end', () => ends.map(({ run }) => ended(run)), ends.length),
        end: (run: OwnedRun) => statement('end', () => ended(run).end, 1),
      },
    },
    {
      provide: JobScheduleStore,
      useValue: {
        lookIn: () => statement('presence', looked),
        remember: () => statement('watermark', () => undefined, jobs.length),
      },
    },
    { provide: JobInstanceStore, useValue: { unregistered: () => statement('unregistered', () => []) } },
    {
      provide: ReapingRepository,
      useValue: {
        outlook: () => statement('outlook', outlook),
        waiting: async () => [],
        orphanRunsOf: () => statement('unregistered', () => []),
      },
    },
  ];
}

/** Neighbours with nothing to say: no flags, no backlog, no changed schedule. */
export function fakedNeighbours({ jobs }: Surroundings) {
  const registered = jobs.map((definition) => ({ definition, handler: () => {} }));
  const none: never[] = [];
  return [
    {
      provide: KnownJobs,
      useValue: {
        runnable: () => registered,
        names: () => jobs.map(({ name }) => name),
        declared: { jobs: registered, handlers: new Map() },
      },
    },
    { provide: FlagAnswers, useValue: { off: async () => new Map() } },

    {
      provide: FollowedSchedules,
      useValue: { take: () => {}, started: () => {}, forget: () => {}, contests: 0, contestedJobs: none },
    },
    { provide: Cancellations, useValue: { flags: none, apply: () => {} } },
  ];
}
