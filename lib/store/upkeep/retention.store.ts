import type { DataSource } from 'typeorm';
import { forgettable, isNothing, type AgedPartition, type StillOpen } from '../../domain/forgetting.js';
import { queryOn, type Query } from '../connection/query.js';
import { callFunction } from '../connection/one-message.js';
import { cancelStatement } from '../connection/cancel-statement.js';
import { isImpatience } from '../connection/sql-state.js';
import type { SchedulerDatabase } from '../scheduler-database.js';
import { agedPartitions, boundOf, markOf } from './aged-partitions.js';

/** Milliseconds. */
interface Limits {
  /** How long a partition is waited for that somebody still reads or writes. Nobody waits behind it meanwhile. */
  readonly detachWithinMs: number;
  /** Somebody is at it who marked it so lately. */
  readonly busyMs: number;
}

const LIMITS: Limits = { detachWithinMs: 10_000, busyMs: 30_000 };

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
      const open = await this.stillOpen(partition);
      if (!isNothing(open)) return { kind: 'kept', open };
    }
    const since = await this.mark(partition);
    if (!since) return { kind: 'busy' };
    return this.database.aside(async (source) => {
      if (partition.state !== 'detached' && !(await this.detach(source, partition, signal))) return { kind: 'in use' };
      return this.finish(source, partition, since, olderThan);
    });
  }

  private async stillOpen({ table, from, until }: AgedPartition): Promise<StillOpen> {
    const [open] = await this.database.call<OpenRow>('partition_open_1', [table, boundOf(from), boundOf(until), null]);
    return openOf(open!);
  }

  /** @returns since when it is this replica's; null when another has begun, or it is gone */
  private async mark(partition: AgedPartition): Promise<Date | null> {
    const { name, state, droppedSince } = partition;
    const since = droppedSince === null ? null : new Date(droppedSince).toISOString();
    const [marked] = await this.database.call<{ partition_mark_1: Date | null }>('partition_mark_1', [name, state, since, markOf(partition)]);
    return marked!.partition_mark_1;
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
    await this.database.call('partition_unmark_1', [name]);
  }

  private async finish(source: DataSource, { table, name, from, until }: AgedPartition, since: Date, olderThan: number): Promise<Forgotten> {
    const values = [table, name, boundOf(from), boundOf(until), since.toISOString(), new Date(olderThan).toISOString()];
    try {
      const [ended] = await callFunction<DroppedRow>(source, this.database.tables.qualify('partition_drop_1'), values);
      const { verdict, dead } = ended!;
      if (verdict === 'kept') return { kind: 'kept', open: openOf(ended!) };
      return verdict === 'dropped' ? { kind: 'dropped', dead } : { kind: 'busy' };
    } catch (error) {
      if (isImpatience(error)) return { kind: 'in use' };
      throw error;
    }
  }
}

interface OpenRow {
  runs: number;
  pages: number;
  in_doubt: number;
  backfills: number;
}

interface DroppedRow extends OpenRow {
  verdict: 'busy' | 'kept' | 'dropped';
  dead: number;
}

function openOf({ runs, pages, in_doubt, backfills }: OpenRow): StillOpen {
  return { runs, pages, inDoubt: in_doubt, backfills };
}
