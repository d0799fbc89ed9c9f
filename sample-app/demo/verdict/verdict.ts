import type { Database } from '../database.js';
import type { Strike } from '../disasters.js';
import type { Doubt } from '../doubts.js';
import type { ExpectedJob } from '../jobs.js';
import type { MailServer } from '../mail-server.js';
import { countEffects, type Effects } from './effects.js';
import { judge, type Guarantee } from './guarantees.js';
import { lookAtPeculiarJobs } from './jobs-of-their-own.js';
import { countOccurrences, type JobCount } from './occurrences.js';
import { readRuns } from './runs.js';
import { findTakeOvers, type TakeOver } from './takeovers.js';
import type { Window } from './window.js';

export interface Verdict {
  readonly held: boolean;
  /** A sentence for each guarantee that did not hold. */
  readonly broken: readonly string[];
  readonly window: Window;
  readonly jobs: readonly JobCount[];
  readonly effects: Effects;
  readonly takeOvers: readonly TakeOver[];
  /** Mails that were in doubt, `from` the replica that had sent them. */
  readonly doubts: readonly (Doubt & { readonly from: string })[];
  readonly guarantees: readonly Guarantee[];
}

/** Where the verdict is read from. */
export interface Evidence {
  readonly database: Database;
  readonly mailServer: MailServer;
  readonly expected: readonly ExpectedJob[];
  readonly window: Window;
  readonly strikes: readonly Strike[];
  readonly doubts: readonly Doubt[];
  readonly unexpectedEnds: readonly string[];
  readonly nameOf: (instanceId: string) => string;
}

/** Reads everything from the database and the mail server; what replicas told counts for nothing here. */
export async function reachVerdict({
  database,
  mailServer,
  expected,
  window,
  strikes,
  doubts,
  unexpectedEnds,
  nameOf,
}: Evidence): Promise<Verdict> {
  const runs = await readRuns(database, window);
  const jobs = countOccurrences(expected, window, runs);
  const effects = await countEffects(database, mailServer, window, runs);
  const peculiar = await lookAtPeculiarJobs(database, window, runs);
  const takeOvers = findTakeOvers(strikes, runs, nameOf);
  const guarantees = judge({ jobs, effects, peculiar, strikes, takeOvers, doubts, unexpectedEnds });
  const broken = guarantees.filter(({ held }) => !held).map(({ claim, evidence }) => `${claim}: ${evidence}.`);
  return {
    held: broken.length === 0,
    broken,
    window,
    jobs,
    effects,
    takeOvers: takeOvers.filter((one) => one !== null),
    doubts: doubts.map((doubt) => ({ ...doubt, from: nameOf(doubt.instanceId) })),
    guarantees,
  };
}
