import { InvalidOptionsError, SchedulerError } from '../errors/errors.js';
import { databaseTrouble } from '../errors/database-trouble.js';
import { hasEnded, type Delivered } from '../operations/delivery-rules.js';
import { deliverByHttp, EndpointError } from './deliver-by-http.js';
import { HELP, readArguments, type TriggerCommand } from './trigger-arguments.js';

/** What a command has of its process. */
export interface Console {
  readonly env: NodeJS.ProcessEnv;
  readonly say: (text: string) => void;
  readonly complain: (text: string) => void;
  /** The width of the terminal; left out where the output is none. */
  readonly columns?: number;
  /** Calls back when somebody ends the process. */
  readonly interrupted?: (stop: () => void) => void;
}

/** What a command ends with; `--help` says the same. */
export const EXIT = { taken: 0, notDone: 1, usage: 2, refused: 3, unreachable: 4, notOver: 5 } as const;

/** @returns the exit code; never throws */
export async function runCommand(args: readonly string[], terminal: Console): Promise<number> {
  try {
    if (args[0] === 'trigger') return await trigger(args, terminal);
    // Nest and TypeORM take a while to load.
    const { operate } = await import('./operate.js');
    return await operate(args, terminal);
  } catch (error) {
    terminal.complain(wordsOf(error));
    if (error instanceof InvalidOptionsError) return EXIT.usage;
    if (error instanceof EndpointError) return error.isRefusal ? EXIT.refused : EXIT.unreachable;
    return databaseTrouble(error) === null && error instanceof SchedulerError ? EXIT.refused : EXIT.unreachable;
  }
}

async function trigger(args: readonly string[], { env, say }: Console): Promise<number> {
  const asked = readArguments(args, env);
  if (asked.kind === 'help') {
    say(HELP);
    return EXIT.taken;
  }
  const delivered = asked.url === null ? await byDatabase(asked, env) : await deliverByHttp(asked, asked.url);
  say(asked.json ? JSON.stringify(delivered) : delivered.text);
  return asked.waitMs > 0 ? exitOfWaiting(delivered) : EXIT.taken;
}

/** TypeORM takes a while to load, and only this way needs it. */
async function byDatabase(asked: TriggerCommand, env: NodeJS.ProcessEnv): Promise<Delivered> {
  const { deliverByDatabase } = await import('./deliver-by-database.js');
  return deliverByDatabase(asked, env);
}

function exitOfWaiting(delivered: Delivered): number {
  if (!hasEnded(delivered)) return EXIT.notOver;
  return delivered.status === 'dead' || delivered.status === 'cancelled' ? EXIT.notDone : EXIT.taken;
}

function wordsOf(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  // The library's own errors have it already.
  if (error instanceof SchedulerError) return message;
  const advice = databaseTrouble(error)?.advice;
  return advice === undefined || message.includes(advice) ? message : `${message}\n${advice}`;
}
