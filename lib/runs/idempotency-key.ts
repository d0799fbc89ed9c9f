import { createHmac } from 'node:crypto';
import { queryOn } from '../database/query.js';
import type { SchedulerDatabase } from '../database/scheduler-database.js';
import type { RunKey } from '../options/run.js';

/** The effect a receipt stands for when a handler has only one for each entity. */
export const DEFAULT_EFFECT = 'default';

/**
 * A key for one effect on one entity in one occurrence: the same on every attempt and replica, 43 characters that are
 * safe in a header. Who does not know the secret cannot say it beforehand: a request or a mail that came first under
 * the same key would have the receiver drop the true one.
 * @param secret of this installation
 */
export function idempotencyKey(secret: string, run: RunKey, entity: string, effect: string = DEFAULT_EFFECT): string {
  const parts = [run.jobName, run.fireTime.toISOString(), entity, effect];
  return createHmac('sha256', secret).update(JSON.stringify(parts)).digest('base64url');
}

/** Makes the keys of effects, with a secret that was drawn once for these tables: the same for every replica and version. */
export class IdempotencyKeys {
  private known: string | null = null;

  constructor(private readonly database: SchedulerDatabase) {}

  /** Once, before anything runs. The migration draws one; tables that were copied without their rows have none. */
  async read(): Promise<void> {
    const { coordination, tables } = this.database;
    const ask = async (text: string) => (await queryOn(coordination)<{ secret: string }>(text))[0]?.secret;
    const find = `select secret from ${tables.receiptSecret}`;
    const draw = `insert into ${tables.receiptSecret} default values on conflict do nothing returning secret`;
    this.known = (await ask(find)) ?? (await ask(draw)) ?? (await ask(find))!;
  }

  get secret(): string {
    if (this.known === null) throw new Error('The secret of idempotency keys has not been read.');
    return this.known;
  }

  of(run: RunKey, entity: string, effect: string): string {
    return idempotencyKey(this.secret, run, entity, effect);
  }
}
