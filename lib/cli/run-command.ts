import { databaseTrouble } from '../errors/database-trouble.js';
import { DeliveryRefusedError } from '../errors/operator.errors.js';
import { InvalidOptionsError } from '../errors/scheduler.error.js';
import { UnknownJobError } from '../errors/job.errors.js';
import { hasEnded, type Delivered } from '../operations/delivered.js';
import { deliverByHttp, EndpointError } from './deliver-by-http.js';
import { HELP, readArguments, type TriggerCommand } from './trigger-arguments.js';

/** What a command has of its process. */
export interface Console {
  readonly env: NodeJS.ProcessEnv;
  readonly say: (text: string) => void;
  readonly complain: (text: string) => void;
}

/** What a command ends with; `--help` says the same. */
export const EXIT = { taken: 0, notDone: 1, usage: 2, refused: 3, unreachable: 4, notOver: 5 } as const;

/** @returns the exit code; never throws */
export async function runCommand(args: readonly string[], { env, say, complain }: Console): Promise<number> {
  try {
    const asked = readArguments(args, env);
    if (asked.kind === 'help') {
      say(HELP);
      return EXIT.taken;
    }
    const delivered = asked.url === null ? await byDatabase(asked, env) : await deliverByHttp(asked, asked.url);
    say(asked.json ? JSON.stringify(delivered) : delivered.text);
    return asked.waitMs > 0 ? exitOfWaiting(delivered) : EXIT.taken;
  } catch (error) {
    complain(wordsOf(error));
    if (error instanceof InvalidOptionsError) return EXIT.usage;
    if (error instanceof DeliveryRefusedError || error instanceof UnknownJobError) return EXIT.refused;
    return error instanceof EndpointError && error.isRefusal ? EXIT.refused : EXIT.unreachable;
  }
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
  const advice = databaseTrouble(error)?.advice;
  return advice === undefined || message.includes(advice) ? message : `${message}\n${advice}`;
}
