import type { DataSource } from 'typeorm';
import { callFunction, type SchedulerDatabase } from '../database/scheduler-database.js';
import { type Query, queryOn } from '../database/query.js';
import { isImpatience } from '../database/sql-state.js';
import type { Tables } from '../database/tables.js';
import { type AgedPartition, forgettable, FORGOTTEN_TABLES, isNothing, type StillOpen } from '../options/retention.js';

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

/**
 * How the comment on a partition begins that a replica is about to drop: only what bears it is ever dropped once it is
 * detached.
 */
const MARK = 'nestjs-distributed-cron drops this';

/**
 * How the comment on a partition begins that is about to be dropped: what it was of, if it has to be given back. Since
 * when follows.
 */
export function markOf({ table, from, until }: AgedPartition): string {
  return `${MARK}: ${table} from ${boundOf(from)} to ${boundOf(until)}, since `;
}

/** A bound as functions of the database take it. */
export function boundOf(millis: number): string {
  return Number.isFinite(millis) ? new Date(millis).toISOString() : '-infinity';
}

/**
 * The partitions of the three tables that have an end, and what was detached to be dropped and still is there. Of what
 * somebody else detached nothing is known.
 */
export async function agedPartitions(query: Query, { schema }: Tables): Promise<AgedPartition[]> {
  const rows = await query<{
    name: string;
    parent: string | null;
    is_detaching: boolean;
    from: Date | null;
    until: Date | null;
    comment: string | null;
  }>(
    `select child.relname as name, parent.relname as parent, coalesce(inhdetachpending, false) as is_detaching,
            substring(pg_get_expr(child.relpartbound, child.oid) from $$FROM \\('([^']+)'\\)$$)::timestamptz as from,
            substring(pg_get_expr(child.relpartbound, child.oid) from $$TO \\('([^']+)'\\)$$)::timestamptz as until,
            obj_description(child.oid, 'pg_class') as comment
     from   pg_class child
     join   pg_namespace on pg_namespace.oid = child.relnamespace
     left   join pg_inherits on inhrelid = child.oid
     left   join pg_class parent on parent.oid = inhparent and parent.relnamespace = child.relnamespace
     where  nspname = $1
     and    child.relkind in ('r', 'p')
     and   (parent.relname = any ($2::text[])
            or inhparent is null and starts_with(obj_description(child.oid, 'pg_class'), $3))`,
    [schema, [...FORGOTTEN_TABLES], MARK],
  );
  return rows.flatMap(({ name, parent, is_detaching, from, until, comment }): AgedPartition[] => {
    const mark = readMark(comment);
    if (parent === null) return mark ? [{ ...mark, name, state: 'detached' }] : [];
    // What somebody else began to detach is theirs.
    if (until === null || (is_detaching && !mark)) return [];
    const table = parent as AgedPartition['table'];
    const state = is_detaching ? 'detaching' : 'attached';
    return [
      {
        table,
        name,
        from: from?.getTime() ?? -Infinity,
        until: until.getTime(),
        state,
        droppedSince: mark?.droppedSince ?? null,
      },
    ];
  });
}

function readMark(comment: string | null): Omit<AgedPartition, 'name' | 'state'> | null {
  const [, table, from, until, since] =
    comment?.match(/^nestjs-distributed-cron drops this: (\w+) from (\S+) to (\S+), since (\S+)$/) ?? [];
  if (!FORGOTTEN_TABLES.some((one) => one === table)) return null;
  const fromMs = from === '-infinity' ? -Infinity : Date.parse(from!);
  return {
    table: table as AgedPartition['table'],
    from: fromMs,
    until: Date.parse(until!),
    droppedSince: Date.parse(since!),
  };
}
