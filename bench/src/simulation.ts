import { cpus } from 'node:os';
import type { Benchmark, Effort, Figure } from './benchmark.js';
import { onConnection, onServer } from './database.js';
import { bytesOfRuns, type RunBytes } from './run-bytes.js';
import { inFreshProcess } from './sampling.js';
import type { SimulationPlan, SimulationResult } from './simulation-plan.js';
import type { Asked } from './simulated-database.js';
import type { StatementCosts, StatementKind } from './statement-costs.js';

const RUNS_A_MONTH = 1_000 * 60 * 24 * 30;

/** A case, apart from how large it is. */
type Case = Pick<SimulationPlan, 'expression' | 'cores' | 'roundTripMs' | 'handlerMs'>;

/** A database of its own for many replicas, and handlers that do something. */
const SERVICE = { cores: 8, roundTripMs: 1, handlerMs: { from: 20, to: 500 } };

/** All at the same second of each minute; and each at a second of its own. */
const CASES: Readonly<Record<string, Case>> = {
  minute: { expression: '* * * * *', ...SERVICE },
  spread: { expression: 'H * * * * *', ...SERVICE },
};

/** On this machine, with handlers that do nothing, all of whose ends come at once. */
const AS_MEASURED: Case = {
  expression: '0,15,30,45 * * * * *',
  cores: cpus().length,
  roundTripMs: 0,
  handlerMs: { from: 0, to: 0 },
};

const KINDS: readonly StatementKind[] = ['claim', 'look', 'end', 'presence', 'outlook', 'watermark', 'unregistered'];

/**
 * What does not fit on this machine: the code of 100 replicas that decides what is asked, on a clock and a database
 * that are simulated.
 */
export const simulation: Benchmark = {
  name: 'simulation',
  about: '100 replicas and 1,000 jobs a minute, on a simulated clock: what all of them ask, and what a month comes to',

  async run({ quick }: Effort): Promise<Figure[]> {
    const size = quick
      ? { replicas: 3, jobs: 30, warmUpSeconds: 6, seconds: 60 }
      : { replicas: 100, jobs: 1_000, warmUpSeconds: 60, seconds: 600 };
    const { costs, bytes } = await measured(size.replicas, size.jobs, quick);
    const figures = monthFigures(bytes);
    for (const [name, one] of Object.entries(CASES)) {
      const plan = { ...size, ...one, costs };
      figures.push(...figuresOf(`simulation.${name}`, plan, await simulated(plan)));
    }
    // What `replicas` measures with real ones, to see how far the simulation can be trusted.
    const real = { ...size, replicas: quick ? 3 : 30, jobs: quick ? 20 : 500, ...AS_MEASURED, costs };
    const result = await simulated(real);
    // All that a replica wins of an instant ends in one group.
    const floor = (3 * result.claimsNeeded) / result.runs;
    figures.push({
      name: 'simulation.as-replicas-30',
      value: countsOf(result).statements / result.runs,
      unit: 'a run',
      floor,
      reach: 1,
    });
    return figures;
  },
};

async function simulated(plan: SimulationPlan): Promise<SimulationResult> {
  const result = await inFreshProcess<SimulationResult>('simulation.sample.js', JSON.stringify(plan));
  if (process.env.BENCH_VERBOSE) console.error(plan, result);
  return result;
}

/** What the simulated database takes for its answers, and what a run leaves behind, on a real one. */
async function measured(
  replicas: number,
  jobs: number,
  quick: boolean,
): Promise<{ costs: StatementCosts; bytes: { ours: RunBytes; bare: RunBytes } }> {
  const costs = await onServer((url) =>
    inFreshProcess<StatementCosts>(
      'statement-costs.sample.js',
      url,
      String(jobs),
      String(replicas),
      quick ? '1' : '40',
      '0',
    ),
  );
  const bytes = await onServer((url) => onConnection(url, (client) => bytesOfRuns(client, url, quick ? 500 : 50_000)));
  return { costs, bytes };
}

function monthFigures({ ours, bare }: { ours: RunBytes; bare: RunBytes }): Figure[] {
  const gigabytes = (bytes: number) => (bytes * RUNS_A_MONTH) / 1e9;
  return (['table', 'indexes', 'log'] as const).map((name) => ({
    name: `simulation.month-${name}`,
    value: gigabytes(ours[name]),
    unit: 'GB',
    floor: gigabytes(bare[name]),
    reach: 6 * gigabytes(bare[name]),
  }));
}

function figuresOf(
  name: string,
  { replicas, seconds, costs, roundTripMs }: SimulationPlan,
  result: SimulationResult,
): Figure[] {
  const { runs, asked, most, claimsNeeded, askedInVain, delayMs, poolSize } = result;
  const { statements, inVain, busyMs, leastNeeded } = countsOf(result);
  // Who wins something of an instant has to claim it, in two statements; and each run ends by itself, since handlers
  // end at different times.
  const needed: Partial<Record<StatementKind, number>> = { claim: 2 * claimsNeeded, end: runs };
  const neededMs =
    claimsNeeded * costs.claim.baseMs + (runs - claimsNeeded) * costs.claim.eachMs + runs * costs.end.baseMs;
  const soonest = roundTripMs + costs.claim.baseMs;
  return [
    {
      name: `${name}-statements`,
      value: statements / runs,
      unit: 'a run',
      floor: leastNeeded / runs,
      reach: (2 * leastNeeded) / runs,
    },
    // A hundredth of what PostgreSQL takes in batches.
    { name: `${name}-rate`, value: statements / seconds, unit: 'a second', floor: leastNeeded / seconds, reach: 250 },
    ...KINDS.map((kind): Figure => {
      const floor = (needed[kind] ?? 0) / runs;
      return {
        name: `${name}-${kind}`,
        value: (asked[kind]?.statements ?? 0) / runs,
        unit: 'a run',
        floor,
        reach: Math.max(1, 2 * floor),
      };
    }),
    { name: `${name}-in-vain`, value: inVain / statements, unit: 'share', floor: 0, reach: 0.2 },
    { name: `${name}-askers-in-vain`, value: askedInVain, unit: 'share', floor: 0, reach: 0.2 },
    { name: `${name}-most`, value: most, unit: 'share', floor: 1 / replicas, reach: 2 / replicas },
    { name: `${name}-claimed-p50`, value: delayMs.p50, unit: 'ms', floor: soonest, reach: 3 * soonest },
    { name: `${name}-claimed-p99`, value: delayMs.p99, unit: 'ms', floor: soonest, reach: 100 },
    {
      name: `${name}-database`,
      value: (100 * busyMs) / (seconds * 1_000),
      unit: '%',
      floor: (100 * neededMs) / (seconds * 1_000),
      reach: 100,
    },
    // Each its pool and its heartbeat's; PostgreSQL allows a hundred by default.
    { name: `${name}-connections`, value: replicas * (poolSize + 1), unit: 'connections', floor: replicas, reach: 97 },
  ];
}

function countsOf({ runs, asked, claimsNeeded }: SimulationResult) {
  const total = (what: keyof Asked) => sum(KINDS.map((kind) => asked[kind]?.[what] ?? 0));
  return {
    statements: total('statements'),
    inVain: total('inVain'),
    busyMs: total('busyMs'),
    leastNeeded: 2 * claimsNeeded + runs,
  };
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
