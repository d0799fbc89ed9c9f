import type { Benchmark, Effort, Figure } from './benchmark.js';
import { fleetFigures } from './boot-fleet.js';
import type { BootSample } from './boot.sample.js';
import { onServer } from './database.js';
import { inFreshProcess, mediansOf } from './sampling.js';

const REACH_MS = 2_000;

/** The whole start of a replica, the database included. The first round, which makes the tables, does not count. */
export const boot: Benchmark = {
  name: 'boot',
  about:
    'an application with 5,000 jobs over all time zones started anew on its database, the next instants known; 10 replicas with 500 jobs started at once',

  async run(effort: Effort): Promise<Figure[]> {
    const { quick, samples } = effort;
    const jobs = quick ? 50 : 5_000;
    return onServer(async (url) => {
      const start = async (count: number) =>
        (await inFreshProcess<BootSample>('boot.sample.js', url, String(count))).millis;
      const [floor, value] = await mediansOf(samples, [() => start(1), () => start(jobs)]);
      return [
        { name: 'boot.known', value: value!, unit: 'ms', floor: floor!, reach: REACH_MS },
        ...(await fleetFigures(url, effort)),
      ];
    });
  },
};
