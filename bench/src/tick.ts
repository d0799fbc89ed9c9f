import { performance } from 'node:perf_hooks';
import type { JobDefinition } from '../../dist/lib/options/job-definition.js';
import type { Benchmark, Effort, Figure } from './benchmark.js';
import { FakedTicker } from './faked-ticker.js';
import { jobOf } from './jobs.js';
import { mediansOf } from './sampling.js';

const SCHEDULES: readonly number[] = [200, 5_000, 50_000];

const DUE = 20;

/** The same whether there are 200 schedules or 50,000, but for the noise of the machine. */
const FLAT = 3;

const MINUTE_MS = 60_000;

/** New Year is far away all the while. */
const START = Date.parse('2026-03-10T10:00:00Z');

/** What the instance itself does in a tick, without the database. */
export const tick: Benchmark = {
  name: 'tick',
  about: 'a tick with nothing due, and with 20 due, of 200 to 50,000 schedules',

  async run(effort: Effort): Promise<Figure[]> {
    return [...(await figuresOf(0, effort)), ...(await figuresOf(DUE, effort))];
  },
};

async function figuresOf(due: number, { quick, samples }: Effort): Promise<Figure[]> {
  const ticks = quick ? 5 : 2_000;
  const sizes = quick ? SCHEDULES.slice(0, 1) : SCHEDULES;
  const [floor, ...values] = await mediansOf(
    samples,
    [floorOf(due), ...sizes.map((schedules) => tickOf(due, schedules))].map((turn) => () => microsEach(ticks, turn)),
  );
  const reach = FLAT * values[0]!;
  return sizes.map((schedules, index) => ({
    name: `tick.${due}-due-of-${schedules}`,
    value: values[index]!,
    unit: 'µs',
    floor: floor!,
    reach,
  }));
}

/** One tick a minute. */
function tickOf(due: number, schedules: number): () => Promise<void> {
  const ticker = new FakedTicker(jobsOf(due, schedules), START);
  let now = START;
  return async () => {
    const asked = ticker.asked;
    await ticker.tick((now += MINUTE_MS));
    if (ticker.asked - asked !== due)
      throw new Error(`${ticker.asked - asked} occurrences were asked for, not ${due}.`);
  };
}

/** Without any schedule a promise is to be awaited; of what is due, each next fire time has to be computed. */
function floorOf(due: number): () => Promise<void> {
  const jobs = jobsOf(due, due);
  let now = START;
  return async () => {
    now += MINUTE_MS;
    for (const { schedule } of jobs) schedule.nextAfter(now);
  };
}

async function microsEach(count: number, turn: () => Promise<void>): Promise<number> {
  const startedAt = performance.now();
  for (let done = 0; done < count; done++) await turn();
  return ((performance.now() - startedAt) * 1_000) / count;
}

/** So many that are due each minute, and the rest once a year. */
function jobsOf(due: number, schedules: number): JobDefinition[] {
  return Array.from({ length: schedules }, (_, index) =>
    jobOf({ name: `job-${index}`, expression: index < due ? '* * * * *' : '0 0 1 1 *', timeZone: 'Europe/Berlin' }),
  );
}
