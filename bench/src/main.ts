import { parseArgs } from 'node:util';
import { boot } from './boot.js';
import { FULL, QUICK, type Benchmark } from './benchmark.js';
import { burst } from './burst.js';
import { claim } from './claim.js';
import { commits } from './commits.js';
import { fireDelay } from './fire-delay.js';
import { heartbeat } from './heartbeat.js';
import { history } from './history.js';
import { idle } from './idle.js';
import { receipts } from './receipts.js';
import { memory } from './memory.js';
import { month } from './month.js';
import { replicas } from './replicas.js';
import { judged, machine, sentence } from './report.js';
import { retention } from './retention.js';
import { schedules } from './schedules.js';
import { simulation } from './simulation.js';
import { takeOver } from './take-over.js';
import { tick } from './tick.js';
import { vacuum } from './vacuum.js';

const BENCHMARKS: readonly Benchmark[] = [
  schedules,
  boot,
  memory,
  tick,
  burst,
  fireDelay,
  replicas,
  idle,
  takeOver,
  claim,
  heartbeat,
  receipts,
  history,
  month,
  retention,
  vacuum,
  commits,
  simulation,
];

const USAGE = `npm run bench -- [--only NAME]… [--json] [--quick]; NAME is ${BENCHMARKS.map(({ name }) => name).join(', ')}.`;

/** Exit code 1 when a benchmark could not be run. What is not within reach is a figure like any other. */
async function main(): Promise<void> {
  const { only, json, quick } = flags();
  // With --json the standard output has figures only.
  const tell = (line: string) => (json ? console.error(line) : console.log(line));
  tell(machine());
  if (quick) tell('Quick: these figures mean nothing.');
  for (const benchmark of BENCHMARKS.filter(({ name }) => only.length === 0 || only.includes(name))) {
    tell(`\n${benchmark.name}: ${benchmark.about}`);
    try {
      for (const figure of await benchmark.run(quick ? QUICK : FULL)) {
        const line = judged(figure);
        console.log(json ? JSON.stringify(line) : sentence(line));
      }
    } catch (error) {
      console.error(`${benchmark.name} could not be run:`, error);
      process.exitCode = 1;
    }
  }
  tell(`\n${machine()}`);
}

function flags(): { only: string[]; json: boolean; quick: boolean } {
  const { values } = parseArgs({
    options: {
      only: { type: 'string', multiple: true, default: [] },
      json: { type: 'boolean', default: false },
      quick: { type: 'boolean', default: false },
    },
  });
  // npm keeps what comes before "--" for itself.
  const swallowed = ['only', 'json', 'quick'].filter(
    (flag) =>
      process.env[`npm_config_${flag}`] && !process.argv.slice(2).some((given) => given.startsWith(`--${flag}`)),
  );
  if (swallowed.length > 0)
    throw new TypeError(`npm has taken --${swallowed.join(' and --')} for itself: put -- before the flags.`);
  const unknown = values.only.filter((wanted) => !BENCHMARKS.some(({ name }) => name === wanted));
  if (unknown.length > 0) throw new TypeError(`There is no benchmark ${unknown.join(', ')}.`);
  return values;
}

await main().catch((error: unknown) => {
  console.error(`${error instanceof Error ? error.message : String(error)}\n${USAGE}`);
  process.exitCode = 1;
});
