import { setTimeout as sleep } from 'node:timers/promises';
import type { DataSource } from 'typeorm';
import { monotonicNow } from '../database/clock.js';
import { callFunction, type SchedulerDatabase } from '../database/scheduler-database.js';
import { type Query, queryOn } from '../database/query.js';
import { isImpatience } from '../database/sql-state.js';
import { type AgedPartition, forgettable, isNothing, type StillOpen } from '../options/retention.js';
import { agedPartitions, boundOf, markOf } from './aged-partitions.js';

/** How much of a statement the server shows at least. */
const SHOWN = 1_000;

/**
 * Cancels a statement of this role that is under way on another connection. By its text: behind a pooler a connection's
 * number is not that of the session which works for it.
 */
export async function cancelStatement(query: Query, text: string): Promise<void> {
  await query(
    `select pg_cancel_backend(pid)
     from   pg_stat_activity
     where  datname = current_database()
     and    usename = current_user
     and    state = 'active'
     and    left(query, ${SHOWN}) = $1`,
    [text.slice(0, SHOWN)],
  );
}

/** Milliseconds. */
interface Limits {
  /** How long a partition is waited for that somebody still reads or writes. Nobody waits behind it meanwhile. */
  readonly detachWithinMs: number;
  /** Somebody is at it who marked it so lately. */
  readonly busyMs: number;
}

/** Between two looks at whether it is used: claims go on meanwhile. */
const PAUSE_MS = 1_000;

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
 * Drops partitions whole. One is marked, detached while everything goes on beside it, looked at once more when nobody
 * can reach it, and dropped; or given back, when something was begun in it meanwhile. Each step can be finished by any
 * replica.
 */
export class RetentionStore {
  private readonly query: Query;

  constructor(
    private readonly database: SchedulerDatabase,
    private readonly limits = LIMITS,
  ) {
    this.query = queryOn(database.coordination);
  }

  /**
   * @param retentionMs kept longer where a job of any application on these tables may still need it. A policy that is no
   * number asks for nothing.
   */
  async aged(retentionMs: number): Promise<Aged> {
    const [{ now, needed_ms }] = (await this.query<{ now: Date; needed_ms: number }>(
      `select clock_timestamp() as now,
              coalesce(max(coalesce(${millisOf('catchUpWindowMs')}, 0)
                           + greatest(${MARGIN_MS}, ${millisOf('expectSuccessWithinMs')})), 0) as needed_ms
       from   ${this.database.tables.jobSchedule}
       where  removed_at is null`,
    )) as [{ now: Date; needed_ms: number }];
    const olderThan = now.getTime() - Math.max(retentionMs, needed_ms);
    const partitions = forgettable(await agedPartitions(this.query, this.database.tables), olderThan);
    const isBusy = partitions.some(
      ({ droppedSince }) => droppedSince !== null && droppedSince > now.getTime() - this.limits.busyMs,
    );
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
      if (partition.state !== 'detached') {
        const isDetached = (await this.owns(partition))
          ? await this.detach(source, partition, signal)
          : await this.haveDetached(partition, since, signal);
        if (!isDetached) return { kind: 'in use' };
      }
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
    const [marked] = await this.database.call<{ partition_mark_1: Date | null }>('partition_mark_1', [
      name,
      state,
      since,
      markOf(partition),
    ]);
    return marked!.partition_mark_1;
  }

  /**
   * Outside of a transaction, as PostgreSQL wants it: it waits for whoever uses the table by now, and nobody for it.
   * What is cut short stays half detached, out of sight of everybody, and is finished at another pass.
   * @returns false when somebody still uses it
   */
  private async detach(
    source: DataSource,
    { table, name, state }: AgedPartition,
    signal?: AbortSignal,
  ): Promise<boolean> {
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

  private async owns({ table }: AgedPartition): Promise<boolean> {
    const [found] = await this.query<{ owns: boolean }>(
      `select pg_has_role(relowner, 'usage') as owns from pg_class where oid = to_regclass($1)`,
      [this.database.tables.qualify(table)],
    );
    return found!.owns;
  }

  /** By a function with the rights of the owner. @returns false when somebody still uses it */
  private async haveDetached(
    { table, name, state }: AgedPartition,
    since: Date,
    signal?: AbortSignal,
  ): Promise<boolean> {
    const until = monotonicNow() + this.limits.detachWithinMs;
    while (!signal?.aborted) {
      try {
        const [done] = await this.database.call<{ partition_detach_1: boolean }>('partition_detach_1', [
          table,
          name,
          state,
          since.toISOString(),
        ]);
        return done!.partition_detach_1;
      } catch (error) {
        if (isImpatience(error) && monotonicNow() < until) {
          await sleep(PAUSE_MS, undefined, { signal }).catch(() => {});
          continue;
        }
        await this.unmark(name).catch(() => {});
        if (isImpatience(error)) return false;
        throw error;
      }
    }
    await this.unmark(name).catch(() => {});
    return false;
  }

  /** What is still attached was not begun: who detaches it by hand from now on is not to lose it. */
  private async unmark(name: string): Promise<void> {
    await this.database.call('partition_unmark_1', [name]);
  }

  private async finish(
    source: DataSource,
    { table, name, from, until }: AgedPartition,
    since: Date,
    olderThan: number,
  ): Promise<Forgotten> {
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

/** SQL: null for what can't be read, so that one job's does not keep those of all others. */
function millisOf(policy: string): string {
  return `case jsonb_typeof(policies -> '${policy}') when 'number' then least((policies -> '${policy}')::numeric, 1e14)::float8 end`;
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
