import { readFileSync } from 'node:fs';
import { parseArgs, type ParseArgsConfig } from 'node:util';
import type { DeliveredTime } from '../operations/delivery-rules.js';
import { readInstant, timeOfKubernetesJob } from '../trigger/trigger-request.js';
import { InvalidOptionsError, unknownOption } from '../errors/errors.js';
import { problemsOfData } from '../options/run-time-job.js';
import { duration, schemaName, text, type Rule } from '../options/option-rules.js';
import { knownAs } from '../options/operator-options.js';

export const HELP = `Usage: nestjs-distributed-cron trigger <job> [options]

Delivers one occurrence of a job, as often as you like: it runs once, on whichever
replica has room. Without --url it needs the database alone, named by DATABASE_URL
or by PGHOST, PGDATABASE and their like.

  --fire-time <time>       the planned time, as 2026-11-30T02:15:00Z or with an offset
  --kubernetes-job <name>  the same, from the name of a Job that a CronJob made
                           without either, the one that is due now is meant
  --data <json>            what the handler gets as run.data
  --by <who>               kept with the run (default: cli)
  --wait <duration>        answer when the run has ended, after so long at the latest
  --json                   print the answer as JSON instead of a sentence
  --schema <name>          the schema of the tables (default: public)
  --url <url>              send it to this endpoint instead, such as https://app/cron;
                           the token is that of TRIGGER_TOKEN
  --token-file <path>      ... or of this file
  --help

Exit codes: 0 it was taken in, or had its decision before; with --wait: it is done
or skipped. 1 with --wait: it ended otherwise. 2 wrong usage. 3 refused: no such
job, no such time, or too early. 4 the database or the endpoint could not be
reached, or failed: deliver it again. 5 with --wait: it is not over yet.`;

const OPTIONS = {
  'fire-time': { type: 'string' },
  'kubernetes-job': { type: 'string' },
  data: { type: 'string' },
  by: { type: 'string' },
  wait: { type: 'string' },
  json: { type: 'boolean' },
  schema: { type: 'string' },
  url: { type: 'string' },
  'token-file': { type: 'string' },
  help: { type: 'boolean', short: 'h' },
} as const satisfies ParseArgsConfig['options'];

/** A delivery as the command line asks for it. */
export interface TriggerCommand {
  readonly kind: 'trigger';
  readonly jobName: string;
  readonly time: DeliveredTime;
  readonly data: unknown;
  readonly by: string;
  /** 0 for an answer at once. */
  readonly waitMs: number;
  readonly json: boolean;
  readonly schema: string;
  /** Where the endpoint is; null for the database. */
  readonly url: URL | null;
  /** Empty without a url. */
  readonly token: string;
}

/** @throws InvalidOptionsError with every problem */
export function readArguments(
  args: readonly string[],
  env: NodeJS.ProcessEnv,
): TriggerCommand | { readonly kind: 'help' } {
  const { values, positionals } = parsed(args);
  if (values.help) return { kind: 'help' };
  const problems: string[] = [];
  const read = <T>(name: string, rule: Rule<T>, given: unknown, otherwise: T): T => {
    if (given === undefined) return otherwise;
    const reading = rule(given);
    if ('value' in reading) return reading.value;
    problems.push(`${name}: ${reading.problem}`);
    return otherwise;
  };
  // The first one is `trigger` itself.
  const [, jobName, ...more] = positionals;
  if (jobName === undefined) problems.push('name the job: trigger <job>');
  if (more.length > 0) problems.push(`one job at a time; besides there is ${more.join(' ')}`);
  const times = [
    read('--fire-time', fireTime, values['fire-time'], null),
    read('--kubernetes-job', kubernetesJob, values['kubernetes-job'], null),
  ].filter((at) => at !== null);
  if (times.length > 1) problems.push('--fire-time and --kubernetes-job both say the planned time; give one of them');
  const [at] = times;
  const url = read('--url', endpoint, values.url, null);
  if (values.url !== undefined && values.schema !== undefined)
    problems.push('--schema is for the database, and --url for an endpoint; give one of them');
  if (values.url === undefined && values['token-file'] !== undefined) problems.push('--token-file is for --url');
  const command: TriggerCommand = {
    kind: 'trigger',
    jobName: read('job', knownAs, jobName, ''),
    time: at === undefined ? { kind: 'now' } : { kind: 'planned', at },
    data: read('--data', json, values.data, undefined),
    by: read('--by', text(200), values.by, 'cli'),
    waitMs: read('--wait', duration({ atMost: url ? '5m' : '24h' }), values.wait, 0),
    json: values.json ?? false,
    schema: read('--schema', schemaName, values.schema, 'public'),
    url,
    token: url ? read('--token-file', tokenIn, values['token-file'], env.TRIGGER_TOKEN ?? '') : '',
  };
  if (url && command.token === '' && problems.length === 0)
    problems.push('--url needs a token: set TRIGGER_TOKEN, or give --token-file');
  // What fetch says about a header that it refuses has the header in it.
  if (!/^[\x21-\x7e]*$/.test(command.token))
    problems.push(
      `${values['token-file'] === undefined ? 'TRIGGER_TOKEN' : '--token-file'}: expected one token in printable ASCII without blanks`,
    );
  // A url would lose them, and the token go elsewhere.
  if (url && /^\.\.?$/.test(command.jobName))
    problems.push(`job: no url can name ${JSON.stringify(command.jobName)}; leave out --url`);
  if (problems.length > 0) throw new InvalidOptionsError([...problems, 'See nestjs-distributed-cron --help.']);
  return command;
}

function parsed(args: readonly string[]) {
  try {
    return parseArgs({ args: [...args], options: OPTIONS, allowPositionals: true });
  } catch (error) {
    throw new InvalidOptionsError([
      wrongUse(error as Error & { code?: string }),
      'See nestjs-distributed-cron --help.',
    ]);
  }
}

/** Node's words, but for its advice on arguments that begin with a dash: here none does. */
function wrongUse({ code, message }: Error & { code?: string }): string {
  const [, option] = (code === 'ERR_PARSE_ARGS_UNKNOWN_OPTION' && /^Unknown option '(--?[^']+)'/.exec(message)) || [];
  return option === undefined
    ? message
    : unknownOption(
        option,
        Object.keys(OPTIONS).map((name) => `--${name}`),
      );
}

const fireTime: Rule<number | null> = (given) => {
  const value = readInstant(given);
  return value === null
    ? { problem: `expected a time such as 2026-11-30T02:15:00Z, got ${JSON.stringify(given)}` }
    : { value };
};

const kubernetesJob: Rule<number | null> = (given) => {
  const value = timeOfKubernetesJob(given);
  return value === null
    ? {
        problem: `expected the name of a Job that a CronJob made, such as export-29400135, got ${JSON.stringify(given)}`,
      }
    : { value };
};

const json: Rule<unknown> = (given) => {
  try {
    const value: unknown = JSON.parse(String(given));
    const [problem] = problemsOfData(value);
    return problem === undefined ? { value } : { problem };
  } catch (error) {
    return { problem: `expected JSON (${(error as Error).message})` };
  }
};

const endpoint: Rule<URL | null> = (given) => {
  const url = URL.canParse(String(given)) ? new URL(String(given)) : null;
  if (url && /^https?:$/.test(url.protocol) && url.username === '' && url.search === '') return { value: url };
  return { problem: 'expected the url of the endpoint without the job, such as https://app.example.com/cron' };
};

/** Not on the command line, where every user of the machine reads it. */
const tokenIn: Rule<string> = (path) => {
  try {
    return { value: readFileSync(String(path), 'utf8').trim() };
  } catch (error) {
    return { problem: `cannot be read (${(error as NodeJS.ErrnoException).code})` };
  }
};
