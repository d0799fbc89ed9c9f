import type { MigrationInterface, QueryRunner } from 'typeorm';

/** What `migrations` of a TypeORM data source takes. */
export type MigrationClass = new () => MigrationInterface;

/**
 * The statements of a migration, in their order. In each, `@schema` stands for the schema's quoted name, and
 * `@schema_text` for a literal of its name.
 */
interface Texts {
  readonly up: readonly string[];
  readonly down: readonly string[];
  /** The schema is created where it is missing. @default false */
  readonly createsSchema?: boolean;
  /**
   * The number of the oldest migration whose release goes on beside the release of this one: a migration that drops
   * functions or columns, or changes what they mean, says it. @default as before
   */
  readonly serves?: number;
}

/** The names of all functions that migrations create: in its schema there may be others. */
export const createdFunctions = new Set(['scheduler_schema_version']);

/**
 * Makes a migration of texts that are frozen once they are released: they import nothing of the library, so that an
 * installation of today and one that is upgraded have the same tables and functions.
 * @param name with the migration's number at its end, as TypeORM wants it
 * @returns the migration for a schema; without one, for the schema of the data source that runs it, or `public`
 */
export function migration(name: string, { up, down, createsSchema = false, serves }: Texts) {
  const number = numberOf(name);
  for (const [, created] of up.join('\n').matchAll(/function @schema\.(\w+)\(/g)) createdFunctions.add(created!);
  return (schema?: string): MigrationClass =>
    class implements MigrationInterface {
      readonly name = name;

      async up(queryRunner: QueryRunner): Promise<void> {
        const target = schemaOf(queryRunner, schema);
        if (createsSchema) await ensureSchema(queryRunner, target);
        await withBoundedLocks(queryRunner, async () => {
          for (const text of up) await queryRunner.query(inSchema(text, target));
          await storeVersion(queryRunner, target, (was) => ({
            version: Math.max(number, was?.version ?? 0),
            serves: Math.max(serves ?? 0, was?.serves ?? number),
          }));
        });
      }

      async down(queryRunner: QueryRunner): Promise<void> {
        const target = schemaOf(queryRunner, schema);
        await withBoundedLocks(queryRunner, async () => {
          for (const text of down) await queryRunner.query(inSchema(text, target));
          if (createsSchema) await queryRunner.query(inSchema(`drop function if exists ${VERSION}()`, target));
          else await storeVersion(queryRunner, target, (was) => ({ serves: number, ...was, version: number - 1 }));
        });
      }
    };
}

/** What the schema says of itself: the migration that has run last, and the oldest whose release goes on with it. */
export interface SchemaVersion {
  readonly version: number;
  readonly serves: number;
}

/** The function that says it; `storedVersion` asks it. */
const VERSION = '@schema.scheduler_schema_version';

/** The number at the end of a migration's name. */
export function numberOf(name: string): number {
  return Number(/\d+$/.exec(name)![0]);
}

/** @returns null where no migration has run */
export async function storedVersion(
  query: (sql: string, parameters?: unknown[]) => Promise<unknown>,
  schema: string,
): Promise<SchemaVersion | null> {
  const named = inSchema(`${VERSION}()`, schema);
  const [{ there }] = (await query('select to_regprocedure($1) is not null as there', [named])) as [{ there: boolean }];
  if (!there) return null;
  const [stored] = (await query(`select version, serves from ${named}`)) as [{ version: string; serves: string }];
  return { version: Number(stored.version), serves: Number(stored.serves) };
}

async function storeVersion(
  queryRunner: QueryRunner,
  schema: string,
  next: (was: SchemaVersion | null) => SchemaVersion,
): Promise<void> {
  const { version, serves } = next(await storedVersion((sql, values) => queryRunner.query(sql, values), schema));
  await queryRunner.query(
    inSchema(
      `create or replace function ${VERSION}() returns table (version bigint, serves bigint)
       language sql stable as 'select ${version}::bigint, ${serves}::bigint'`,
      schema,
    ),
  );
}

/** How long a migration waits for a lock, in milliseconds, where nothing else says how long. */
const LOCK_WITHIN_MS = 5_000;

/**
 * A migration that waits for a long transaction has everybody behind it wait: with the application's own data source it
 * gives up (55P03, the transaction is rolled back) and can be run again. A `lock_timeout` that is set already holds.
 */
async function withBoundedLocks(queryRunner: QueryRunner, work: () => Promise<void>): Promise<void> {
  const rows: unknown = await queryRunner.query(`select current_setting('lock_timeout') as bound`);
  const isUnbounded = (rows as [{ bound: string }])[0].bound === '0';
  if (isUnbounded) await setLockTimeout(queryRunner, LOCK_WITHIN_MS);
  await work();
  if (isUnbounded) await setLockTimeout(queryRunner, 0);
}

/** Until the end of the transaction. */
async function setLockTimeout(queryRunner: QueryRunner, millis: number): Promise<void> {
  await queryRunner.query(`select set_config('lock_timeout', $1, true)`, [String(millis)]);
}

/**
 * Creates the schema where it is missing. Asks first: `create schema if not exists` needs a right it may have no use
 * for.
 */
export async function ensureSchema(queryRunner: QueryRunner, schema: string): Promise<void> {
  const schemas = (await queryRunner.query('select from pg_namespace where nspname = $1', [schema])) as unknown[];
  if (schemas.length === 0) await queryRunner.query(`create schema ${quoteIdentifier(schema)}`);
}

/** The name as SQL reads it, whatever is in it: in double quotes, with those in it doubled. */
export function quoteIdentifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

function schemaOf(queryRunner: QueryRunner, schema?: string): string {
  return schema ?? (queryRunner.connection.options as { schema?: string }).schema ?? 'public';
}

/** The replacements are functions: in a text, `$1` of a schema's name would stand for something else. */
function inSchema(text: string, schema: string): string {
  const literal = `E'${schema.replaceAll('\\', '\\\\').replaceAll("'", "''")}'`;
  return text.replaceAll('@schema_text', () => literal).replaceAll('@schema', () => quoteIdentifier(schema));
}

/** What every function of a verb is made with. None waits longer than this for a lock that somebody holds. */
export const VERB = `language plpgsql set search_path = @schema, pg_temp set jit = off set plan_cache_mode = force_generic_plan set lock_timeout = '2s'`;
