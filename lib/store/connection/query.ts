import { QueryRunnerAlreadyReleasedError, type DataSource, type EntityManager, type QueryRunner } from 'typeorm';
import { ask } from './ask.js';

/** Runs one statement and returns its rows. */
export type Query = <Row = Record<string, unknown>>(sql: string, parameters?: readonly unknown[]) => Promise<Row[]>;

/** Whose connection a statement goes over; a data source gives one for it. */
export type Queryable = DataSource | EntityManager | QueryRunner;

/**
 * Statements of this library over TypeORM's connections, the application's too: past TypeORM's own `query`, which reads answers as
 * the application has its pool read them.
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
