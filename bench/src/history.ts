import type { Benchmark, Effort, Figure } from './benchmark.js';
import { onConnection, onServer } from './database.js';
import { fillHistory, makeMonths } from './fill-history.js';
import type { HistorySample } from './history.sample.js';
import { inFreshProcess } from './sampling.js';

const SIZES = [1_000_000, 20_000_000];

/** The same with years behind it as on the first day, but for the noise of the machine. */
const FLAT = 1.2;

/** What an instance asks all the time, and what people ask, the longer a service has run. */
export const history: Benchmark = {
  name: 'history',
  about:
    'a claim of 20, the reaper’s look, a restart and the inventory with 1 and 20 million rows in 24 partitions; the floor is the same partitions without a row',

  async run({ quick, samples }: Effort): Promise<Figure[]> {
    return onServer(async (url) => {
      const rounds = String(quick ? 2 : 20 * samples);
      const measured = async () => {
        const sample = await inFreshProcess<HistorySample>('history.sample.js', url, rounds);
        // Their leases would end in another sample, whose reaper had more to do.
        await onConnection(url, (client) =>
          client.query(`update job_runs set status = 'done', finished_at = now() where status = 'running'`),
        );
        return sample;
      };
      // The first makes the tables, and is cold.
      await measured();
      await onConnection(url, makeMonths);
      const empty = await measured();
      const figures: Figure[] = [];
      let rows = 0;
      for (const size of quick ? [2_000] : SIZES) {
        await onConnection(url, (client) => fillHistory(client, rows, size));
        rows = size;
        const full = await measured();
        for (const name of Object.keys(full) as (keyof HistorySample)[]) {
          figures.push({
            name: `history.${name}-${shortly(size)}`,
            value: full[name],
            unit: 'ms',
            floor: empty[name],
            reach: FLAT * empty[name],
          });
        }
      }
      return figures;
    });
  },
};

function shortly(rows: number): string {
  return rows < 1_000_000 ? String(rows) : `${rows / 1_000_000}M`;
}
