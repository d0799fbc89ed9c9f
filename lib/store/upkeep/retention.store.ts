import type { DataSource } from 'typeorm';
import { forgettable, isNothing, type AgedPartition, type StillOpen } from '../../domain/forgetting.js';
import { queryOn, type Query } from '../connection/query.js';
import { cancelStatement } from '../connection/cancel-statement.js';
import { isImpatience } from '../connection/sql-state.js';
import { inTransaction, lockName, tryLockName } from '../connection/transaction.js';
import type { SchedulerDatabase } from '../scheduler-database.js';
import { agedPartitions, boundOf, markOf } from './aged-partitions.js';
import { stillOpen } from './still-open.js';

/** Milliseconds. */
interface Limits {
  /** How long a partition is waited for that somebody still reads or writes. Nobody waits behind it meanwhile. */
  readonly detachWithinMs: number;
  /** Somebody is at it who marked it so lately. */
  readonly busyMs: number;
}

const LIMITS: Limits = { detachWithinMs: 10_000, busyMs: 30_000 };

/** For locks that are held for moments only. */
const LOCK_WITHIN_MS = 2_000;

/** Beside the catch-up window: as at the start, see `problemsOfRetention`. */
const MARGIN_MS = 86_400_000;

/** What there is to forget. */
export interface Aged {
  /** In the order in which they are to go. */
  readonly partitions: readonly AgedPartition[];
  /** Milliseconds, by the database's clock: what ends later is kept. */
  readonly olderThan: number;
  /** Another replica is at it. */
  readonly isBusy: boolean;
}

/** What became of a partition. */
export type Forgotten =
  /** With so many dead runs that nobody had replayed or discarded. */
  | { readonly kind: 'dropped'; readonly dead: number }
  | { readonly kind: 'kept'; readonly open: StillOpen }
  /** A transaction that began before has to end first. */
  | { readonly kind: 'in use' }
  | { readonly kind: 'busy' };

/**
 * Drops partitions whole. One is marked, detached while everything goes on beside it, looked at once more when nobody can
 * reach it, and dropped; or given back, when something was begun in it meanwhile. Each step can be finished by any replica.
 */
export class RetentionStore {
  private readonly query: Query;

  constructor(
    private readonly database: SchedulerDatabase,
    private readonly limits = LIMITS,
  ) {
    this.query = queryOn(database.coordination);
  }

  /** @param retentionMs kept longer where a job of any application on these tables may still need it */
  async aged(retentionMs: number): Promise<Aged> {
    const [{ now, needed_ms }] = (await this.query<{ now: Date; needed_ms: number }>(
      `select clock_timestamp() as now,
              coalesce(max(coalesce((policies ->> 'catchUpWindowMs')::float8, 0)
                           + greatest(${MARGIN_MS}, (policies ->> 'expectSuccessWithinMs')::float8)), 0) as needed_ms
       from   ${this.database.tables.jobSchedule}
       where  removed_at is null`,
    )) as [{ now: Date; needed_ms: number }];
    const olderThan = now.getTime() - Math.max(retentionMs, needed_ms);
    const partitions = forgettable(await agedPartitions(this.query, this.database.tables), olderThan);
    const isBusy = partitions.some(({ droppedSince }) => droppedSince !== null && droppedSince > now.getTime() - this.limits.busyMs);
    return { partitions, olderThan, isBusy };
  }

  /**
   * @param olderThan what ends later is given back, if it was begun
   * @param signal ends the wait for whoever uses it
   */
  async forget(partition: AgedPartition, olderThan: number, signal?: AbortSignal): Promise<Forgotten> {
    if (partition.state === 'attached') {
      const open = await stillOpen(this.query, this.database.tables, partition);
      if (!isNothing(open)) return { kind: 'kept', open };
    }
    const since = await this.mark(partition);
    if (!since) return { kind: 'busy' };
    return this.database.aside(async (source) => {
      if (partition.state !== 'detached' && !(await this.detach(source, partition, signal))) return { kind: 'in use' };
      return this.finish(source, { ...partition, droppedSince: since.getTime() }, olderThan);
    });
  }

  /** @returns since when it is this replica's; null when another has begun, or it is gone */
  private async mark(partition: AgedPartition): Promise<Date | null> {
    const { coordination, tables } = this.database;
    return inTransaction(coordination, async (query) => {
      if (!(await tryLockName(query, this.lock)) || !(await this.isStill(partition, query))) return null;
      await impatiently(query);
      const [{ now }] = (await query<{ now: Date }>('select clock_timestamp() as now')) as [{ now: Date }];
      await query(`comment on table ${tables.qualify(partition.name)} is '${markOf(partition, now)}'`);
      return now;
    });
  }

  /** Nobody else has been at it since. */
  private async isStill({ name, state, droppedSince }: AgedPartition, query: Query): Promise<boolean> {
    const seen = (await agedPartitions(query, this.database.tables)).find((partition) => partition.name === name);
    return seen?.state === state && seen.droppedSince === droppedSince;
  }

  /**
   * Outside of a transaction, as PostgreSQL wants it: it waits for whoever uses the table by now, and nobody for it. What is
   * cut short stays half detached, out of sight of everybody, and is finished at another pass.
   * @returns false when somebody still uses it
   */
  private async detach(source: DataSource, { table, name, state }: AgedPartition, signal?: AbortSignal): Promise<boolean> {
    const { tables, coordination } = this.database;
    const how = state === 'detaching' ? 'finalize' : 'concurrently';
    const statement = `alter table ${tables.qualify(table)} detach partition ${tables.qualify(name)} ${how}`;
    const cancel = () => void cancelStatement(queryOn(coordination), statement).catch(() => {});
    const impatience = setTimeout(cancel, this.limits.detachWithinMs);
    signal?.addEventListener('abort', cancel);
    try {
      await source.query(statement);
      return true;
    } catch (error) {
      await this.unmark(name).catch(() => {});
      if (isImpatience(error)) return false;
      throw error;
    } finally {
      clearTimeout(impatience);
      signal?.removeEventListener('abort', cancel);
    }
  }

  /** What is still attached was not begun: who detaches it by hand from now on is not to lose it. */
  private async unmark(name: string): Promise<void> {
    const { coordination, tables } = this.database;
    await inTransaction(coordination, async (query) => {
      await lockName(query, this.lock);
      const seen = (await agedPartitions(query, tables)).find((partition) => partition.name === name);
      if (seen?.state !== 'attached') return;
      await impatiently(query);
      await query(`comment on table ${tables.qualify(name)} is null`);
    });
  }

  private async finish(source: DataSource, partition: AgedPartition, olderThan: number): Promise<Forgotten> {
    const { tables } = this.database;
    const name = tables.qualify(partition.name);
    try {
      return await inTransaction(source, async (query): Promise<Forgotten> => {
        await lockName(query, this.lock);
        // A replica that was frozen meanwhile: another may have given it back, and a person may have detached it.
        if (!(await this.isStill({ ...partition, state: 'detached' }, query))) return { kind: 'busy' };
        await impatiently(query);
        await query(`lock table ${name} in access exclusive mode`);
        const open = await stillOpen(query, tables, partition, partition.name);
        if (partition.until > olderThan || !isNothing(open)) {
          await this.giveBack(query, partition);
          return { kind: 'kept', open };
        }
        const dead = partition.table === 'job_runs' ? await query(`select from ${name} where status = 'dead'`) : [];
        await query(`drop table ${name}`);
        return { kind: 'dropped', dead: dead.length };
      });
    } catch (error) {
      if (isImpatience(error)) return { kind: 'in use' };
      throw error;
    }
  }

  private async giveBack(query: Query, { table, name, from, until }: AgedPartition): Promise<void> {
    const { tables } = this.database;
    const begin = Number.isFinite(from) ? `'${boundOf(from)}'` : 'minvalue';
    await query(`alter table ${tables.qualify(table)} attach partition ${tables.qualify(name)} for values from (${begin}) to ('${boundOf(until)}')`);
    await query(`comment on table ${tables.qualify(name)} is null`);
  }

  /** The same as for making partitions: a month is not made while it is dropped. */
  private get lock(): string {
    return `nestjs-distributed-cron:partitions:${this.database.tables.schema}`;
  }
}

/** For the rest of the transaction. */
async function impatiently(query: Query): Promise<void> {
  await query(`select set_config('lock_timeout', $1, true)`, [String(LOCK_WITHIN_MS)]);
}
