import type { Benchmark, Effort, Figure } from './benchmark.js';
import { onConnection, onServer } from './database.js';
import { fillMonth } from './fill-history.js';
import { inFreshProcess } from './sampling.js';
import type { RetentionSample } from './retention.sample.js';

const ROWS = 8_000_000;

/** No claim may be slower, in milliseconds. */
const REACH_MS = 50;

/** A month is dropped beside claims that follow each other: the slowest of them, and the slowest without a drop. */
export const retention: Benchmark = {
  name: 'retention',
  about:
    'a month of 8 million runs dropped beside live claims of 20: the slowest of them, also with a transaction open that the drop has to wait for; the floor is the slowest without a drop',

  async run({ quick }: Effort): Promise<Figure[]> {
    const rows = quick ? 2_000 : ROWS;
    return onServer(async (url) => {
      // The first makes the tables, and comes to nothing.
      await inFreshProcess('boot.sample.js', url, '1');
      await onConnection(url, async (client) => {
        await fillMonth(client, 5, rows);
        for (const monthsAgo of [4, 3]) await fillMonth(client, monthsAgo, Math.ceil(rows / 100));
        await client.query('vacuum analyze job_runs');
        await client.query('checkpoint');
      });
      const sample = await inFreshProcess<RetentionSample>(
        'retention.sample.js',
        url,
        ...(quick ? ['1', '1'] : ['10', '65']),
      );
      if (process.env.BENCH_VERBOSE) console.error(JSON.stringify(sample));
      return [
        { name: 'retention.slowest-claim', value: sample.dropping, unit: 'ms', floor: sample.quiet, reach: REACH_MS },
        {
          name: 'retention.slowest-beside-reader',
          value: sample.besideReader,
          unit: 'ms',
          floor: sample.quiet,
          reach: REACH_MS,
        },
      ];
    });
  },
};
