/** Runs one statement and returns its rows. */
export type Query = <Row = Record<string, unknown>>(sql: string, parameters?: unknown[]) => Promise<Row[]>;

/** What TypeORM offers to run raw SQL: a data source, a query runner, an entity manager. */
export interface Queryable {
  query(sql: string, parameters?: unknown[]): Promise<unknown>;
}

/**
 * Raw SQL with one kind of answer: for `update` and `delete` TypeORM returns the rows and their number in a pair, for
 * everything else the rows.
 */
export function queryOn(target: Queryable): Query {
  return async <Row>(sql: string, parameters?: unknown[]) => {
    const result = (await target.query(sql, parameters)) as Row[] | [Row[], number];
    return Array.isArray(result[0]) && typeof result[1] === 'number' ? result[0] : (result as Row[]);
  };
}
