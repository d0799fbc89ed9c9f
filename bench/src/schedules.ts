import type { Benchmark, Effort, Figure } from './benchmark.js';
import { inFreshProcess, median } from './sampling.js';
import type { SchedulesSample } from './schedules.sample.js';

const REACH_MS = 2_000;

const REACH_MB = 200;

/**
 * What a replica does for its jobs when it starts, the database apart. Each sample is a process: the cold cost counts.
 */
export const schedules: Benchmark = {
  name: 'schedules',
  about: '5,000 jobs over all time zones read and registered, their next instants known',

  async run({ quick, samples }: Effort): Promise<Figure[]> {
    const count = String(quick ? 50 : 5_000);
    const runs: { all: SchedulesSample; least: SchedulesSample }[] = [];
    for (let sample = 0; sample < samples; sample++) {
      const least = await inFreshProcess<SchedulesSample>('schedules.sample.js', 'least', count);
      runs.push({ least, all: await inFreshProcess<SchedulesSample>('schedules.sample.js', 'all', count) });
    }
    const middle = (value: (run: (typeof runs)[number]) => number) => median(runs.map(value));
    return [
      {
        name: 'schedules.known',
        value: middle(({ all }) => all.millis),
        unit: 'ms',
        floor: middle(({ least }) => least.millis),
        reach: REACH_MS,
      },
      {
        name: 'schedules.memory',
        value: middle(({ all }) => all.megabytes),
        unit: 'MB',
        floor: middle(({ least }) => least.megabytes),
        reach: REACH_MB,
      },
    ];
  },
};
