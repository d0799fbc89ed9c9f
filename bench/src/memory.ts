import type { Benchmark, Effort, Figure } from './benchmark.js';
import { newDatabase, onServer } from './database.js';
import type { MemorySample } from './memory.sample.js';
import { inFreshProcess, median } from './sampling.js';

/** Over an empty application. */
const REACH_MB = 30;

/** From the middle of the day to its end. */
const FLAT_MB = 1;

/** What a replica keeps in memory. Each sample is a process: what one left behind would count for the next. */
export const memory: Benchmark = {
  name: 'memory',
  about:
    '5,000 schedules over all time zones and 24 hours of simulated fires: heap and external memory over an empty Nest application, and how it grows from the 12th hour to the 24th',

  async run({ quick, samples }: Effort): Promise<Figure[]> {
    const [jobs, hours] = quick ? ['50', '1'] : ['5000', '24'];
    return onServer(async (server) => {
      const empty: number[] = [];
      const one: MemorySample[] = [];
      const all: MemorySample[] = [];
      for (let sample = 0; sample < samples; sample++) {
        // Of its own: what is remembered of one simulated day is the past of the next.
        const url = await newDatabase(server, `memory_${sample}`);
        empty.push(await inFreshProcess<number>('memory.empty.sample.js'));
        one.push(await inFreshProcess<MemorySample>('memory.sample.js', url, '1', '0'));
        all.push(await inFreshProcess<MemorySample>('memory.sample.js', url, jobs, hours));
      }
      if (process.env.BENCH_VERBOSE) console.error(JSON.stringify({ empty, one, all }));
      const over = (megabytes: number[]) => Math.max(0, median(megabytes) - median(empty));
      const oneJob = over(one.map(({ started }) => started));
      return [
        {
          name: 'memory.started',
          value: over(all.map(({ started }) => started)),
          unit: 'MB',
          floor: oneJob,
          reach: REACH_MB,
        },
        {
          name: 'memory.after-a-day',
          value: over(all.map(({ afterAll }) => afterAll)),
          unit: 'MB',
          floor: oneJob,
          reach: REACH_MB,
        },
        {
          name: 'memory.growth',
          value: Math.max(0, median(all.map(({ afterHalf, afterAll }) => afterAll - afterHalf))),
          unit: 'MB',
          floor: 0,
          reach: FLAT_MB,
        },
      ];
    });
  },
};
