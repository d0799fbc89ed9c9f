import { randomBytes } from 'node:crypto';
import { queryOn, type Queryable } from './query.js';
import type { SchedulerDatabase } from './scheduler-database.js';
import { inTransaction } from './transaction.js';

/** Nobody waits for the lock meanwhile: its key is this look's own. */
const MOST_IDLE_MS = 5_000;

interface Theirs {
  readonly same: boolean;
  readonly role: string;
  readonly usable: boolean;
}

/**
 * Says what is in the way of receipts on another way to a database; null where nothing is. Whether it is the
 * scheduler's own is tried, not read off names or numbers, which a copy of a database shares with it: a lock that is
 * held here must be seen there.
 */
export async function problemWithDatabase(scheduler: SchedulerDatabase, target: Queryable): Promise<string | null> {
  const { tables } = scheduler;
  const lock = randomBytes(8).readBigInt64BE().toString();
  return inTransaction(scheduler.coordination, async (own) => {
    const [{ schema, receipts, runs, pages }] = (await own(
      `select set_config('idle_in_transaction_session_timeout', $2, true),
              pg_advisory_xact_lock($1::bigint),
              $3::regclass::oid::text as receipts,
              $4::regclass::oid::text as runs,
              $5::regclass::oid::text as pages,
              (select relnamespace::text from pg_class where oid = $3::regclass) as schema`,
      [lock, String(MOST_IDLE_MS), tables.receipts, tables.jobRuns, tables.jobPages],
    )) as [{ schema: string; receipts: string; runs: string; pages: string }];
    const [theirs] = await queryOn(target)<Theirs>(
      `select exists (select
                      from   pg_locks
                      where  locktype = 'advisory'
                      and    objsubid = 1
                      and    granted
                      and    database = (select oid from pg_database where datname = current_database())
                      and    (classid::bigint << 32) | objid::bigint = $1::bigint) as same,
              session_user::text as role,
              has_schema_privilege($2::oid, 'usage')
              and has_table_privilege($3::oid, 'select')
              and has_table_privilege($3::oid, 'insert')
              and has_table_privilege($3::oid, 'update')
              and has_table_privilege($4::oid, 'select')
              and has_any_column_privilege($4::oid, 'update')
              and has_table_privilege($5::oid, 'select')
              and has_any_column_privilege($5::oid, 'update')
              and not exists (select
                              from   pg_proc
                              where  pronamespace = $2::oid
                              and    proname like 'receipt\\_%'
                              and    not has_function_privilege(oid, 'execute')) as usable`,
      [lock, schema, receipts, runs, pages],
    );
    if (!theirs!.same)
      return 'is not the database of the scheduler’s tables: receipt and effect could not be committed together. Give the data source of that database';
    if (!theirs!.usable) {
      return `comes as role "${theirs!.role}", which may not write receipts: grant it usage on schema ${tables.schema}, execute on its functions, and select, insert, update on ${tables.receipts}, ${tables.jobRuns} and ${tables.jobPages}`;
    }
    const [end] = await own<{ may: boolean }>(
      `select ${tables.qualify('may_end_sessions_of_1')}(theirs.oid) as may from pg_roles theirs where rolname = $1`,
      [theirs!.role],
    );
    if (end?.may) return null;
    return (
      `comes as role "${theirs!.role}", whose sessions the scheduler’s role may not end: a process frozen in its transaction would hold its run for ever. ` +
      `Let both use one role, or grant pg_signal_backend to the scheduler’s`
    );
  });
}
