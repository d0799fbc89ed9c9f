import type { Benchmark, Effort, Figure } from './benchmark.js';
import { onConnection, onServer } from './database.js';
import { bytesOfRuns } from './run-bytes.js';

/** What a run leaves behind: `docs/performance.md` multiplies it. */
export const month: Benchmark = {
  name: 'month',
  about:
    'bytes that a run leaves in the table, its indexes and the log, claimed 100 at a time and ended in groups; the floor is a bare table with one key',

  async run({ quick }: Effort): Promise<Figure[]> {
    const runs = quick ? 500 : 50_000;
    return onServer((url) =>
      onConnection(url, async (client) => {
        const { ours, bare } = await bytesOfRuns(client, url, runs);
        const names = ['table', 'indexes', 'log'] as const;
        return names.map((name) => ({
          name: `month.${name}`,
          value: ours[name],
          unit: 'bytes' as const,
          floor: bare[name],
          reach: 6 * bare[name],
        }));
      }),
    );
  },
};
