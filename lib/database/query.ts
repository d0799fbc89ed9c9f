import { type DataSource, type EntityManager, type QueryRunner, QueryRunnerAlreadyReleasedError } from 'typeorm';
import { OWN_TYPES } from './client-config.js';

/** What the server answered to one statement. */
export interface Answer {
  readonly rows: unknown[];
}

/** A connection of pg, whoever has made it. */
interface AnyClient {
  /** Asks for answers in their binary form. */
  binary?: boolean;
  query(query: {
    readonly text: string;
    readonly values?: readonly unknown[] | undefined;
    readonly types: typeof OWN_TYPES;
    readonly query_timeout?: number;
  }): Promise<Answer | Answer[]>;
}

/**
 * The one way in which a statement of this library reaches a connection: the answer is read by this library's rules,
 * whatever the application has set for its process or for the pool that the connection is of.
 * @param client pg's, as TypeORM or a pool gives it
 * @param patienceMs how long the answer is waited for; as long as the client does, if it is left out
 * @returns an answer for each statement, where there are several
 */
export function ask(
  client: unknown,
  text: string,
  values?: readonly unknown[],
  patienceMs?: number,
): Promise<Answer | Answer[]> {
  const asked = client as AnyClient;
  const { binary } = asked;
  try {
    if (binary) asked.binary = false;
    return asked.query({
      text,
      ...(values && { values }),
      types: OWN_TYPES,
      ...(patienceMs !== undefined && { query_timeout: patienceMs }),
    });
  } finally {
    // It is read when the statement is handed over.
    if (binary) asked.binary = binary;
  }
}

/** Runs one statement and returns its rows. */
export type Query = <Row = Record<string, unknown>>(sql: string, parameters?: readonly unknown[]) => Promise<Row[]>;

/** Whose connection a statement goes over; a data source gives one for it. */
export type Queryable = DataSource | EntityManager | QueryRunner;

/**
 * Statements of this library over TypeORM's connections, the application's too: past TypeORM's own `query`, which reads
 * answers as the application has its pool read them.
 */
export function queryOn(target: Queryable): Query {
  return async <Row>(sql: string, parameters?: readonly unknown[]) => {
    const given = runnerOf(target);
    const queryRunner = given ?? dataSourceOf(target).createQueryRunner();
    // TypeORM would go on with a connection that is somebody else's by now.
    if (queryRunner.isReleased) throw new QueryRunnerAlreadyReleasedError();
    try {
      const { rows } = [await ask(await queryRunner.connect(), sql, parameters)].flat()[0]!;
      return rows as Row[];
    } finally {
      if (!given) await queryRunner.release();
    }
  };
}

/** Null: there is none yet. */
function runnerOf(target: Queryable): QueryRunner | null {
  if ('connect' in target && 'isReleased' in target) return target;
  return ('queryRunner' in target && target.queryRunner) || null;
}

/** TypeORM 1 named anew what 0.3 calls `connection`. */
function dataSourceOf(target: Queryable): DataSource {
  if ('createQueryRunner' in target) return target;
  return target.dataSource ?? (target as unknown as { connection: DataSource }).connection;
}
