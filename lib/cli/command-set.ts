import { userInfo } from 'node:os';
import type { Command } from 'commander';
import { InvalidOptionsError, nearestTo, unknownJob } from '../errors/errors.js';
import type { InventoryEntry } from '../operations/inventory.service.js';
import { given, type Operator } from '../options/operator-options.js';
import { schemaName } from '../options/option-rules.js';
import type { Console } from './run-command.js';
import { type Scheduler, withScheduler } from './scheduler-context.js';
import { type Cell, printable, table } from './tables.js';

/** What a command answers: for programs, and for people. */
export interface Answer {
  readonly json: unknown;
  readonly text: string;
  /** Something that an operator has to look at. */
  readonly isBad?: boolean;
}

/** The options of a command, as commander read them. */
export type Given = { readonly schema: string; readonly json?: boolean } & Readonly<Record<string, any>>;

type Look = (scheduler: Scheduler, args: string[], options: Given) => Promise<Answer>;

type Change = (scheduler: Scheduler, args: string[], operator: Operator, options: Given) => Promise<Answer>;

/** Makes the commands: what they have in common is here. */
export class CommandSet {
  /** @param bad is called where an answer is bad news */
  constructor(
    readonly program: Command,
    readonly terminal: Console,
    private readonly bad: () => void,
  ) {}

  /** A command that answers in its own way. */
  bare(usage: string, summary: string, work: (args: string[], options: Given) => Promise<void>): Command {
    return this.program
      .command(usage)
      .description(summary)
      .option('--schema <name>', 'the schema of the tables', 'public')
      .option('--json', 'print JSON')
      .action((...all: unknown[]) => work(all.slice(0, -2).flat() as string[], all.at(-2) as Given));
  }

  /** A command that changes nothing. */
  look(usage: string, summary: string, work: Look): Command {
    return this.bare(usage, summary, async (args, options) =>
      this.answer(options, await this.opened(options, (scheduler) => work(scheduler, args, options))),
    );
  }

  /** A command that changes something: kept with who did it, and why. */
  change(usage: string, summary: string, work: Change): Command {
    return this.look(usage, summary, (scheduler, args, options) => work(scheduler, args, operatorOf(options), options))
      .option('--by <who>', 'kept with what was done', accountName())
      .option('--reason <text>', 'the same');
  }

  /** A change that can't be taken back. */
  destroy(usage: string, summary: string, work: Change): Command {
    const name = usage.split(' ')[0];
    return this.change(usage, summary, async (scheduler, args, operator, options) => {
      if (!options['yes'] && !options['dryRun'])
        throw new InvalidOptionsError([`${name} can't be taken back: say --yes`]);
      return work(scheduler, args, operator, options);
    }).option('--yes', 'do it');
  }

  opened<T>({ schema }: Given, work: (scheduler: Scheduler) => Promise<T>, migrate = false): Promise<T> {
    return withScheduler({ schema: given(schema, schemaName, '--schema'), migrate }, this.terminal.env, work);
  }

  answer({ json }: Given, { json: value, text, isBad }: Answer): void {
    this.terminal.say(json ? JSON.stringify(value) : printable(text));
    if (isBad) this.bad();
  }

  grid(headings: readonly string[], rows: readonly (readonly Cell[])[]): string {
    return table(headings, rows, this.terminal.columns);
  }
}

export async function zoneOf(verbs: Scheduler['verbs'], jobName: string | undefined): Promise<string> {
  return jobName === undefined ? 'UTC' : (await jobCalled(verbs, jobName)).timeZone;
}

export async function jobCalled(verbs: Scheduler['verbs'], jobName: string): Promise<InventoryEntry> {
  const jobs = await verbs.inventory();
  const job = jobs.find(({ name }) => name === jobName);
  const names = jobs.map(({ name }) => name);
  if (!job) throw unknownJob(jobName, nearestTo(jobName, names));
  return job;
}

function operatorOf({ by, reason }: Given): Operator {
  return { by, ...(reason !== undefined && { reason }) };
}

function accountName(): string {
  try {
    return `${userInfo().username} (cli)`;
  } catch {
    // An account without an entry, as containers have.
    return 'cli';
  }
}

export function whole(given: string, what: string): number {
  if (!/^\d{1,6}$/.test(given))
    throw new InvalidOptionsError([`${what}: expected a whole number, got ${JSON.stringify(given)}`]);
  return Number(given);
}

export function json(given: string, what: string): unknown {
  try {
    return JSON.parse(given);
  } catch (error) {
    throw new InvalidOptionsError([`${what}: expected JSON (${(error as Error).message})`]);
  }
}
