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
}

/**
 * Makes a migration of texts that are frozen once they are released: they import nothing of the library, so that an
 * installation of today and one that is upgraded have the same tables and functions.
 * @param name with the migration's number at its end, as TypeORM wants it
 * @returns the migration for a schema; without one, for the schema of the data source that runs it, or `public`
 */
export function migration(name: string, { up, down, createsSchema = false }: Texts) {
  return (schema?: string): MigrationClass =>
    class implements MigrationInterface {
      readonly name = name;

      async up(queryRunner: QueryRunner): Promise<void> {
        const target = schemaOf(queryRunner, schema);
        if (createsSchema) await ensureSchema(queryRunner, target);
        await withBoundedLocks(queryRunner, async () => {
          for (const text of up) await queryRunner.query(inSchema(text, target));
        });
      }

      async down(queryRunner: QueryRunner): Promise<void> {
        const target = schemaOf(queryRunner, schema);
        await withBoundedLocks(queryRunner, async () => {
          for (const text of down) await queryRunner.query(inSchema(text, target));
        });
      }
    };
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
