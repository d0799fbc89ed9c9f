import { randomBytes } from 'node:crypto';
import { startEmbeddedServer } from 'nestjs-distributed-cron/testing';
import { DataSource, QueryFailedError } from 'typeorm';
import { databaseOptions } from '../src/database.js';
import type { Cleanup } from './cleanup.js';
import { Problem } from './problem.js';

/** The demo's database: where it is, and a connection that looks into it. */
export interface Database {
  readonly url: string;
  readonly schema: string;
  readonly dataSource: DataSource;
  /** For people; without a password where the server is theirs. */
  readonly description: string;
}

/** A schema of this demo's own, with the application's tables, on an embedded server or on that of `DATABASE_URL`. */
export async function openDatabase(
  given: string | undefined,
  cleanup: Cleanup,
  signal: AbortSignal,
): Promise<Database> {
  if (given) requireAddress(given);
  const url = given || (await embeddedUrl(cleanup, signal));
  const schema = given ? `invoice_demo_${randomBytes(4).toString('hex')}` : 'invoices';
  const dataSource = new DataSource({
    ...databaseOptions({ databaseUrl: url, schema }),
    poolSize: 2,
    applicationName: 'invoice-demo',
  });
  await dataSource.initialize().catch((error: unknown) => {
    throw given ? unreachable(error) : error;
  });
  cleanup.add(() => dataSource.destroy());
  signal.throwIfAborted();
  if (given) cleanup.add(() => dataSource.query(`drop schema if exists ${schema} cascade`));
  await createTables(dataSource, schema);
  return {
    url,
    schema,
    dataSource,
    description: given ? `${hostOf(url)}, in its own schema ${schema}` : `embedded, ${hostOf(url)}`,
  };
}

async function embeddedUrl(cleanup: Cleanup, signal: AbortSignal): Promise<string> {
  const server = await startEmbeddedServer();
  cleanup.add(() => server.stop());
  signal.throwIfAborted();
  return server.url;
}

function requireAddress(given: string): void {
  if (URL.canParse(given) && /^postgres(ql)?:$/.test(new URL(given).protocol)) return;
  throw new Problem(
    'DATABASE_URL is not the address of a PostgreSQL server. It looks like postgres://user:password@host:5432/database; unset it to use an embedded server.',
  );
}

/** Node reports several refused addresses as one error without a message of its own. */
function unreachable(error: unknown): Problem {
  const { message } = (error instanceof AggregateError ? error.errors[0] : error) as Error;
  return new Problem(
    `Cannot connect to PostgreSQL (address from DATABASE_URL): ${message}. Check that the server runs and that the address, user and password are right.`,
  );
}

async function createTables(dataSource: DataSource, schema: string): Promise<void> {
  try {
    await dataSource.query(`create schema ${schema}`);
    await dataSource.synchronize();
  } catch (error) {
    if (!(error instanceof QueryFailedError)) throw error;
    throw new Problem(
      `The demo could not create its schema ${schema}: ${error.message}. The user of DATABASE_URL needs the right to create schemas there.`,
    );
  }
}

function hostOf(url: string): string {
  const { host, pathname } = new URL(url);
  return `${host}${pathname}`;
}
