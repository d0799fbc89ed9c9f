import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { BootOrder, BootTold } from './boot-replica.js';
import type { Effort, Figure } from './benchmark.js';
import { newDatabase, onConnection, StatementCount } from './database.js';
import { median } from './sampling.js';

const PROGRAM = fileURLToPath(new URL('boot-replica.js', import.meta.url));

/** After an application of Nest alone is up, in milliseconds. */
const WITHIN_MS = 1_000;

/** One start of all replicas. */
interface FleetStart {
  /** Until the last of them was up. */
  readonly millis: number;
  /** Of the replica in the middle: what else runs on the machine does not count. Milliseconds. */
  readonly cpuMs: number;
  /** Of all replicas, a moment later. */
  readonly statements: number;
}

/**
 * Replicas that have loaded their code make their applications at the same moment, on a database that knows nothing and
 * on one that knows their jobs. The floor is the same moment for applications without a scheduler.
 */
export async function fleetFigures(server: string, { quick, samples }: Effort): Promise<Figure[]> {
  const [replicas, many, few] = quick ? [1, 20, 5] : [10, 500, 50];
  return onConnection(server, async (client) => {
    const count = await StatementCount.on(client);
    const start = (url: string | null, jobs: number) => startAll(replicas, { url, jobs }, count, quick ? 300 : 1_500);
    const floors: FleetStart[] = [];
    const empty: FleetStart[] = [];
    const known: FleetStart[] = [];
    const knownFew: FleetStart[] = [];
    for (let sample = 0; sample < Math.min(samples, 5); sample++) {
      const one = await newDatabase(server, `boot_${sample}`);
      const other = await newDatabase(server, `boot_few_${sample}`);
      floors.push(await start(null, many));
      empty.push(await start(one, many));
      known.push(await start(one, many));
      await start(other, few);
      knownFew.push(await start(other, few));
    }
    if (process.env.BENCH_VERBOSE) console.error(JSON.stringify({ floors, empty, known, knownFew }));
    const millis = (starts: readonly FleetStart[]) => median(starts.map((one) => one.millis));
    const cpu = (starts: readonly FleetStart[]) => median(starts.map((one) => one.cpuMs));
    const floor = millis(floors);
    const statements = (starts: readonly FleetStart[]) => median(starts.map((one) => one.statements)) / replicas;
    return [
      { name: `boot.replicas-${replicas}-new`, value: millis(empty), unit: 'ms', floor, reach: floor + WITHIN_MS },
      { name: `boot.replicas-${replicas}-known`, value: millis(known), unit: 'ms', floor, reach: floor + WITHIN_MS },
      { name: `boot.cpu-${many}`, value: cpu(known), unit: 'ms', floor: cpu(floors), reach: cpu(floors) + WITHIN_MS },
      {
        name: `boot.statements-${many}`,
        value: statements(known),
        unit: 'a start',
        floor: statements(knownFew),
        reach: 1.05 * statements(knownFew),
      },
    ];
  });
}

/** @param settledMs what each does at first when it is up is done by then, and nothing is done again yet */
async function startAll(
  count: number,
  plan: { url: string | null; jobs: number },
  statements: StatementCount,
  settledMs: number,
): Promise<FleetStart> {
  const replicas = await Promise.all(Array.from({ length: count }, () => loaded(plan)));
  try {
    await statements.reset();
    const startedAt = performance.now();
    const told = await Promise.all(replicas.map((replica) => ordered(replica, 'start')));
    const millis = performance.now() - startedAt;
    await sleep(settledMs);
    return { millis, cpuMs: median(told.map(({ cpuMs }) => cpuMs)), statements: await statements.read() };
  } finally {
    await Promise.all(replicas.map((replica) => end(replica)));
  }
}

async function loaded({ url, jobs }: { url: string | null; jobs: number }): Promise<ChildProcess> {
  const replica = fork(PROGRAM, [url ?? '', String(jobs)], { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
  await said(replica);
  return replica;
}

async function ordered(replica: ChildProcess, order: BootOrder): Promise<BootTold> {
  const answered = said(replica);
  replica.send(order);
  return answered;
}

async function said(replica: ChildProcess): Promise<BootTold> {
  const ended = once(replica, 'exit').then(([code]) =>
    Promise.reject(new Error(`A replica ended before it was up: exit code ${code}.`)),
  );
  ended.catch(() => {});
  const [told] = (await Promise.race([once(replica, 'message'), ended])) as [BootTold];
  return told;
}

async function end(replica: ChildProcess): Promise<void> {
  if (replica.exitCode !== null || replica.signalCode !== null) return;
  const gone = once(replica, 'exit');
  replica.send('close' satisfies BootOrder);
  const impatience = setTimeout(() => replica.kill('SIGKILL'), 10_000);
  await gone;
  clearTimeout(impatience);
}
