import { deliver, untilEnded } from '../operations/deliveries.service.js';
import type { Delivered } from '../operations/delivery-rules.js';
import { resolveSchedulerOptions } from '../options/resolve-options.js';
import { JobRunRepository } from '../runs/job-run.repository.js';
import { DeliveryStore } from '../operations/delivery.store.js';
import { PartitionStore } from '../database/partition.store.js';
import { JobRun } from '../runs/job-run.entity.js';
import { SchedulerDatabase } from '../database/scheduler-database.js';
import type { TriggerCommand } from './trigger-arguments.js';

/** Writes the occurrence where the replicas look for it: none of them need be reachable from here. */
export async function deliverByDatabase(command: TriggerCommand, env: NodeJS.ProcessEnv): Promise<Delivered> {
  const options = resolveSchedulerOptions(
    { schema: command.schema, poolSize: 1 },
    { env: { ...env, NODE_ENV: 'production' }, embeddedInstalled: false },
  );
  const database = await SchedulerDatabase.open(options, { entities: [JobRun] });
  try {
    const store = new DeliveryStore(database, new JobRunRepository(database, new PartitionStore(database)));
    const delivered = await deliver(store, { ...command, data: command.data ?? null });
    return command.waitMs > 0 ? await untilEnded(store, delivered, command.waitMs) : delivered;
  } finally {
    await database.close();
  }
}
