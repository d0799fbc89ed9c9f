import '../../migrations/index.js';
import { createdFunctions, quoteIdentifier } from '../../migrations/frozen.js';
import { SCHEDULER_TABLES } from '../database/schema.store.js';

/** Who may do what, by name. */
export interface Roles {
  readonly schema: string;
  /** Owns the tables and functions, and runs the migrations. */
  readonly migrator: string;
  /** The application: it owns nothing. */
  readonly runner: string;
}

/**
 * The SQL that makes both roles and grants them what they need. It may be run before the migrations or after them, and
 * again.
 */
export function rolesSql({ schema, migrator, runner }: Roles): string {
  const [place, owner, user] = [schema, migrator, runner].map(quoteIdentifier);
  const functions = [...createdFunctions].sort().map(literal).join(', ');
  const tables = [...SCHEDULER_TABLES, 'distributed_cron_migrations'].map(literal).join(', ');
  return `-- Run it as a superuser, or as the owner of the database with createrole. It can be run again.
-- Give both roles a password afterwards: \\password ${migrator}
do $$ begin
  if not exists (select from pg_roles where rolname = ${literal(migrator)}) then create role ${owner} login; end if;
  if not exists (select from pg_roles where rolname = ${literal(runner)}) then create role ${user} login; end if;
end $$;

-- Give no other role create on this schema: functions that run with the rights of the owner look for tables there.
do $$ begin
  if not exists (select from pg_namespace where nspname = ${literal(schema)}) then create schema ${place}; end if;
  if not pg_has_role(${literal(migrator)}, 'usage') then grant ${owner} to current_user; end if;
end $$;
grant usage, create on schema ${place} to ${owner};
grant usage on schema ${place} to ${user};

-- What the migrations of later releases make.
alter default privileges for role ${owner} in schema ${place} grant select, insert, update, delete on tables to ${user};
alter default privileges for role ${owner} in schema ${place} grant execute on functions to ${user};

-- What is there already, from an installation with one role as well.
do $$
declare
  its record;
begin
  for its in
    select child.oid::regclass as name, child.relname = any (array[${tables}]) as is_whole
    from   pg_class child
    left   join pg_inherits on inhrelid = child.oid
    left   join pg_class parent on parent.oid = inhparent
    where  child.relnamespace = (select oid from pg_namespace where nspname = ${literal(schema)})
    and    child.relkind in ('r', 'p')
    and   (child.relname = any (array[${tables}]) or parent.relname in ('job_runs', 'receipts', 'job_pages'))
  loop
    execute format('alter table %s owner to %I', its.name, ${literal(migrator)});
    if its.is_whole then
      execute format('grant select, insert, update, delete on %s to %I', its.name, ${literal(runner)});
    end if;
  end loop;
  for its in
    select oid::regprocedure as name
    from   pg_proc
    where  pronamespace = (select oid from pg_namespace where nspname = ${literal(schema)})
    and    proname = any (array[${functions}])
  loop
    execute format('alter function %s owner to %I', its.name, ${literal(migrator)});
    execute format('grant execute on function %s to %I', its.name, ${literal(runner)});
  end loop;
end $$;`;
}

/** As SQL reads it, whatever `standard_conforming_strings` is. */
function literal(text: string): string {
  return `E'${text.replaceAll('\\', '\\\\').replaceAll("'", "''")}'`;
}
