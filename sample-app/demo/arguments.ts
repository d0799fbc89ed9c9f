import { parseArgs } from 'node:util';
import { Problem } from './problem.js';

export interface Arguments {
  readonly help: boolean;
  readonly keep: boolean;
  readonly json: boolean;
  /** 0: any free one. */
  readonly smtpPort: number;
}

export const USAGE = `An invoice service in three replicas, with jobs that run once: one replica is killed, one is frozen, then all are.

  npm start -- [flags]

  --keep            keep running after the verdict, until Ctrl-C
  --json            print the verdict as one line of JSON, last on stdout; everything else goes to stderr
  --smtp-port <n>   the port of the demo's mail server on 127.0.0.1 (default: any free one)
  --help            print this

  DATABASE_URL      use this PostgreSQL server instead of an embedded one; the demo works in a schema of its own
                    (invoice_demo_…) and drops it at the end
  NO_COLOR          no colours

It exits with 0 if every guarantee it shows held, otherwise with 1, and says which did not.`;

/** @throws Problem that names what is wrong */
export function readArguments(given: readonly string[]): Arguments {
  const { keep = false, json = false, help = false, 'smtp-port': smtpPort } = parse(given);
  return { keep, json, help, smtpPort: smtpPort === undefined ? 0 : portOf(smtpPort) };
}

function parse(given: readonly string[]) {
  try {
    return parseArgs({
      args: [...given],
      options: {
        keep: { type: 'boolean' },
        json: { type: 'boolean' },
        help: { type: 'boolean', short: 'h' },
        'smtp-port': { type: 'string' },
      },
    }).values;
  } catch (error) {
    const what = error instanceof Error ? error.message.split('. ')[0]! : String(error);
    throw new Problem(`${what}. --help lists the flags.`);
  }
}

function portOf(text: string): number {
  const port = Number(text);
  if (!/^\d+$/.test(text) || port > 65_535)
    throw new Problem(`--smtp-port expects a number from 0 to 65535, not "${text}".`);
  return port;
}
