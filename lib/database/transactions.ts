import type { DataSource, QueryRunner, EntityManager } from 'typeorm';
import { queryOn, type Query, ask } from './query.js';
import { breakConnection, discardConnection } from './clients.js';
import { isUseless } from './sql-state.js';

/**
 * Runs the work in one transaction. It is read committed whatever the database's default: a claim locks first and then
 * looks again, and under a stricter level the second look would still see the first one's snapshot.
 */
export async function inTransaction<Result>(
  dataSource: DataSource,
  work: (query: Query, queryRunner: QueryRunner) => Promise<Result>,
): Promise<Result> {
  const queryRunner = dataSource.createQueryRunner();
  try {
    await queryRunner.query('begin isolation level read committed');
    try {
      const result = await work(queryOn(queryRunner), queryRunner);
      await queryRunner.query('commit');
      return result;
    } catch (error) {
      await queryRunner.query('rollback').catch(() => {});
      throw error;
    }
  } finally {
    await queryRunner.release();
  }
}

/** How long a transaction that holds a lock may do nothing, in milliseconds, before the server ends it. */
const MOST_IDLE_MS = 1_000;

/**
 * Holds a name until the transaction ends, waiting for whoever holds it. Transaction-level, so that it works behind a
 * pooler that hands the connection to somebody else after each transaction. A process that is frozen while it holds the
 * name loses it: the server ends its transaction, and everybody else goes on.
 */
export async function lockName(query: Query, name: string): Promise<void> {
  await query(
    `select set_config('idle_in_transaction_session_timeout', $2, true),
            pg_advisory_xact_lock(hashtextextended($1, 0))`,
    [name, String(MOST_IDLE_MS)],
  );
}

/** SQL and its values: `$1` is the first. */
export interface Statement {
  readonly text: string;
  readonly values: readonly (string | number | null | readonly string[])[];
}

/** What pg offers on a connection for statements that carry their values in their text. */
interface MessageClient {
  query(text: string): Promise<unknown>;
  escapeLiteral(text: string): string;
}

/**
 * Sends the statements as one message: one way to the server and back for all of them. The first that fails ends it.
 * @returns the rows of each
 */
async function sendTogether(client: MessageClient, statements: readonly (Statement | string)[]): Promise<unknown[][]> {
  const text = statements.map((statement) => (typeof statement === 'string' ? statement : inlined(statement, client)));
  return [await ask(client, text.join(';\n'))].flat().map(({ rows }) => rows);
}

/**
 * The text with its values in it: a message of several statements takes no parameters. What stands in quotes is left as
 * it is: a schema may have the name `a$1b`.
 */
function inlined({ text, values }: Statement, client: MessageClient): string {
  return text.replace(/"[^"]*"|'[^']*'|\$(\d+)/g, (whole, position?: string) =>
    position === undefined ? whole : literal(values[Number(position) - 1]!, client),
  );
}

function literal(value: Statement['values'][number], client: MessageClient): string {
  if (value === null || typeof value === 'number') return String(value);
  return typeof value === 'string'
    ? client.escapeLiteral(value)
    : `array[${value.map((one) => client.escapeLiteral(one)).join(', ')}]`;
}

/**
 * How long an answer to a statement of the receipt's own is waited for, in milliseconds; it may have to wait for
 * another receipt.
 */
export const PATIENCE_MS = 30_000;

/** Waits for a statement of the receipt's own. */
type Bounded = <Result>(statement: Promise<Result>) => Promise<Result>;

/**
 * Does the work on a connection of the data source, which may be the application's. One that gives no answer to one of
 * the receipt's own statements is broken: its run would otherwise keep its lease and never end.
 */
export async function onReceiptConnection<Result>(
  dataSource: DataSource,
  work: (queryRunner: QueryRunner, bounded: Bounded) => Promise<Result>,
  patienceMs = PATIENCE_MS,
): Promise<Result> {
  const queryRunner = dataSource.createQueryRunner();
  try {
    const client: unknown = await queryRunner.connect();
    return await work(queryRunner, (statement) => orBreak(client, statement, patienceMs)).catch((error: unknown) => {
      if (isUseless(error)) discardConnection(client);
      throw error;
    });
  } finally {
    await queryRunner.release();
  }
}

/** Waits for the statement, and breaks the connection when its answer does not come. */
async function orBreak<Result>(client: unknown, statement: Promise<Result>, patienceMs: number): Promise<Result> {
  const impatience = setTimeout(() => {
    breakConnection(client, new Error(`The database gave a receipt no answer for ${patienceMs / 1_000} s.`));
  }, patienceMs);
  impatience.unref();
  try {
    return await statement;
  } finally {
    clearTimeout(impatience);
  }
}

/**
 * Sends one statement on the manager's connection: in the transaction that is under way there, or with one of its own
 * around it, in one message. That is read committed, whatever the default: what looks after it has waited must look
 * afresh.
 */
export async function callAlone<Row>({ queryRunner }: EntityManager, statement: Statement): Promise<Row[]> {
  const client = (await queryRunner!.connect()) as MessageClient;
  if (queryRunner!.isTransactionActive) return (await sendTogether(client, [statement]))[0] as Row[];
  try {
    return (await sendTogether(client, ['begin isolation level read committed', statement, 'commit']))[1] as Row[];
  } catch (error) {
    await client.query('rollback').catch(() => {});
    throw error;
  }
}

const SAVEPOINT = 'distributed_cron_receipt';

/** A transaction of the application's that receipts join. */
export type JoinedManager = EntityManager & { readonly queryRunner: QueryRunner };

/** One receipt in it. */
export interface JoinedReceipt {
  /** False: under way is a stricter level, whose snapshot does not show what heartbeats have renewed since. */
  readonly readCommitted: boolean;
  /** @returns the rows of each */
  send(statements: readonly Statement[]): Promise<unknown[][]>;
}

/**
 * Runs the work in a part of the application's transaction that is taken back alone when the work fails: a receipt
 * whose effect failed must not be committed by somebody who caught the error. The transaction itself is the
 * application's to end.
 */
export async function inJoinedTransaction<Result>(
  { queryRunner }: JoinedManager,
  work: (receipt: JoinedReceipt) => Promise<Result>,
): Promise<Result> {
  const client = (await queryRunner.connect()) as MessageClient;
  const [, [level]] = (await sendTogether(client, [
    `savepoint ${SAVEPOINT}`,
    `select current_setting('transaction_isolation') as level`,
  ])) as [unknown, [{ level: string }]];
  try {
    const result = await work({
      readCommitted: level.level === 'read committed',
      send: (statements) => sendTogether(client, statements),
    });
    await client.query(`release savepoint ${SAVEPOINT}`);
    return result;
  } catch (error) {
    // The first error counts: where the connection is gone, or the application has ended its transaction, this one
    // fails, too.
    await client.query(`rollback to savepoint ${SAVEPOINT}; release savepoint ${SAVEPOINT}`).catch(() => {});
    throw error;
  }
}

/** What became of a transaction's work: how it is ended, and its result. */
interface MergedEnd<Result> {
  /** Statements that go with the commit, before it; null rolls back, for there is nothing to keep. */
  readonly closing: readonly Statement[] | null;
  readonly result: Result;
}

/**
 * Runs the work in a transaction whose beginning goes to the server together with its first statements, and whose
 * commit together with its last: the receipt costs no way to the server of its own. TypeORM knows of the transaction,
 * so that nested ones are savepoints and its subscribers hear of it. Read committed, whatever the default: the end must
 * see the lease as heartbeats have renewed it meanwhile.
 *
 * @param work is given the rows of each opening statement
 */
export async function inMergedTransaction<Result>(
  dataSource: DataSource,
  opening: readonly Statement[],
  work: (manager: EntityManager, rows: unknown[][], bounded: Bounded) => Promise<MergedEnd<Result>>,
  patienceMs = PATIENCE_MS,
): Promise<Result> {
  const queryRunner = dataSource.createQueryRunner();
  try {
    const client = (await queryRunner.connect()) as MessageClient;
    const bounded: Bounded = (statement) => orBreak(client, statement, patienceMs);
    const ends = new MergedEnds(queryRunner, client);
    try {
      const rows = await bounded(ends.begin(opening));
      const { closing, result } = await work(queryRunner.manager, rows, bounded);
      await bounded(closing === null ? queryRunner.rollbackTransaction() : ends.commit(closing));
      return result;
    } catch (error) {
      await bounded(ends.rollback()).catch(() => {});
      if (isUseless(error)) discardConnection(client);
      throw error;
    }
  } finally {
    await queryRunner.release();
  }
}

/** Puts the receipt's statements in the place of TypeORM's `START TRANSACTION` and `COMMIT`. */
class MergedEnds {
  private readonly send: QueryRunner['query'];
  private began: unknown[][] | null = null;
  private closing: readonly Statement[] | null = null;

  constructor(
    private readonly queryRunner: QueryRunner,
    private readonly client: MessageClient,
  ) {
    this.send = queryRunner.query.bind(queryRunner);
  }

  async begin(opening: readonly Statement[]): Promise<unknown[][]> {
    const instead = async (sql: string, ...rest: unknown[]): Promise<unknown> => {
      if (sql === 'START TRANSACTION' && !this.began) {
        const [, ...rows] = await sendTogether(this.client, ['begin isolation level read committed', ...opening]);
        this.began = rows;
      } else if (sql === 'COMMIT') await this.end();
      // It has been begun with its level, and a level comes too late after the first statement.
      else if (!/^SET TRANSACTION ISOLATION LEVEL/.test(sql))
        return (this.send as (...all: unknown[]) => Promise<unknown>)(sql, ...rest);
      return [];
    };
    this.queryRunner.query = instead as QueryRunner['query'];
    await this.queryRunner.startTransaction('READ COMMITTED');
    // A TypeORM that begins in other words would have begun alone.
    this.began ??= await sendTogether(this.client, opening);
    return this.began;
  }

  async commit(closing: readonly Statement[]): Promise<void> {
    this.closing = closing;
    await this.queryRunner.commitTransaction();
    if (this.closing)
      throw new Error('This version of TypeORM commits in a way that nestjs-distributed-cron does not know.');
  }

  async rollback(): Promise<void> {
    if (this.queryRunner.isTransactionActive) await this.queryRunner.rollbackTransaction();
    else await this.client.query('rollback');
  }

  private async end(): Promise<void> {
    if (!this.closing) throw new Error('An effect must leave its transaction open: it is committed with its receipt.');
    // A commit after a failed statement is a rollback without an error; a select is not.
    await sendTogether(this.client, [...(this.closing.length > 0 ? this.closing : ['select']), 'commit']);
    this.closing = null;
  }
}
