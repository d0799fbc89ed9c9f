import type { Benchmark, Effort, Figure } from './benchmark.js';
import { onConnection, onServer } from './database.js';
import { inFreshProcess } from './sampling.js';
import type { StatementCosts } from './statement-costs.js';

/** What writes. Claims and ends only for comparison: they may never be lost. */
const WRITES: readonly (keyof StatementCosts)[] = ['presence', 'advance', 'claim', 'end'];

const JOBS = 200;

/** What it would save not to wait until the log is on the disk. */
export const commits: Benchmark = {
  name: 'commits',
  about:
    'single writes on a server that waits for its disk (fsync on), one after the other; the floor is the same with synchronous_commit off',

  async run({ quick }: Effort): Promise<Figure[]> {
    return onServer(
      async (url) => {
        const measured = (sample: number) =>
          inFreshProcess<StatementCosts>(
            'statement-costs.sample.js',
            url,
            String(quick ? 10 : JOBS),
            '10',
            quick ? '3' : '200',
            String(sample),
          );
        const waiting = await measured(0);
        await onConnection(url, (client) => client.query('alter database postgres set synchronous_commit = off'));
        const hasty = await measured(1);
        return WRITES.map((kind) => {
          const [value, floor] = [waiting, hasty].map((costs) => costs[kind].baseMs) as [number, number];
          return { name: `commits.${kind}`, value, unit: 'ms', floor, reach: 2 * floor };
        });
      },
      ['-c', 'fsync=on', '-c', 'full_page_writes=on'],
    );
  },
};
