import type { Query } from '../database/query.js';
import type { Tables } from '../database/tables.js';
import { type AgedPartition, FORGOTTEN_TABLES } from '../options/retention.js';

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
