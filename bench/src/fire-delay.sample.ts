import pg from 'pg';
import { machineNow } from './machine-clock.js';

/** The floor: a timer to each whole second, and one insert before the work. Prints the delays, in milliseconds. */
const [url, fires] = process.argv.slice(2);
const client = new pg.Client({ connectionString: url });
await client.connect();
const delays: number[] = [];
for (let fire = 0; fire < Number(fires); fire++) {
  const fireTime = Math.ceil((machineNow() + 1) / 1_000) * 1_000;
  while (machineNow() < fireTime)
    await new Promise((resolve) => setTimeout(resolve, Math.max(1, Math.ceil(fireTime - machineNow()))));
  await client.query('insert into bare_runs values ($1, $2) on conflict do nothing returning 1', [
    'floor',
    new Date(fireTime).toISOString(),
  ]);
  delays.push(machineNow() - fireTime);
}
await client.end();
console.log(JSON.stringify(delays));
