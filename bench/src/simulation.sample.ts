import 'reflect-metadata';
import { resolveSchedulerOptions } from '../../dist/lib/options/resolve-options.js';
import { jobOf } from './jobs.js';
import { quantile } from './sampling.js';
import { SimulatedDatabase } from './simulated-database.js';
import { SimulatedReplica } from './simulated-replica.js';
import { chance, SimulatedTime } from './simulated-time.js';
import type { SimulationPlan, SimulationResult } from './simulation-plan.js';

const plan = JSON.parse(process.argv[2]!) as SimulationPlan;
const startedAt = performance.now();
const random = chance(6);
// Up to a millisecond late, as timers of a process with little else to do are.
const time = new SimulatedTime(random);
const options = resolveSchedulerOptions(
  { connection: 'postgres://localhost/none' },
  { env: {}, embeddedInstalled: false },
);
const database = new SimulatedDatabase(time, plan.costs, plan);
const jobs = Array.from({ length: plan.jobs }, (_, index) =>
  jobOf({ name: `job-${index}`, expression: plan.expression, timeZone: 'UTC' }),
);
const company = Array.from({ length: plan.replicas }, (_, index) => `replica-${index}`);
const { from, to } = plan.handlerMs;
const around = {
  time,
  database,
  options,
  jobs,
  company,
  roundTripMs: plan.roundTripMs,
  handlerMs: () => from + (to - from) * random(),
};

const replicas = await Promise.all(company.map((id) => SimulatedReplica.of(id, around)));
time.install();
// They were started one after the other, within a poll.
for (const replica of replicas) time.after(options.pollIntervalMs * random(), () => replica.start());
await time.runUntil(plan.warmUpSeconds * 1_000);
const before = replicas.map(({ won }) => won);
database.resetCounts();
await time.runUntil((plan.warmUpSeconds + plan.seconds) * 1_000);

const askers = [...database.askers];
const seconds = new Set(askers.map(([asker]) => asker.split(' ')[0]));
const won = replicas.map((replica, index) => replica.won - before[index]!);
const result: SimulationResult = {
  runs: database.runs,
  asked: Object.fromEntries(database.asked),
  most: Math.max(...won) / database.runs,
  claimsNeeded: database.won.size,
  askedInVain: askers.filter(([, brought]) => brought === 0).length / seconds.size / plan.replicas,
  delayMs: { p50: quantile(database.delays, 0.5), p99: quantile(database.delays, 0.99) },
  poolSize: options.poolSize,
  tookMs: performance.now() - startedAt,
};
console.log(JSON.stringify(result));
