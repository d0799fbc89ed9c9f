import pg from 'pg';
import type { TestDatabase } from './database.js';

const GATE = 4_242;

/**
 * Stops one instance's claims in the middle, by default those that insert into `job_runs`: the row is locked, the
 * transaction open, and nothing committed until `open()`. So the other side of a race can be looked at for as long as a
 * test likes.
 */
export class InsertGate {
  private constructor(
    private readonly test: TestDatabase,
    private readonly holder: pg.Client,
  ) {}

  static async shut(test: TestDatabase, instanceId: string, on: 'insert' | 'update' = 'insert'): Promise<InsertGate> {
    await test.query(`
      create or replace function wait_at_gate() returns trigger language plpgsql as $$
      begin
        if new.claimed_by = '${instanceId}' then perform pg_advisory_xact_lock(${GATE}); end if;
        return new;
      end $$`);
    await test.query(
      `create or replace trigger gate after ${on} on job_runs for each row execute function wait_at_gate()`,
    );
    const holder = new pg.Client({ connectionString: test.url });
    await holder.connect();
    await holder.query(`select pg_advisory_lock(${GATE})`);
    return new InsertGate(test, holder);
  }

  /** Resolves when somebody stands at the gate. @returns the process id of its connection */
  async reached(): Promise<number> {
    for (let tries = 0; tries < 1_000; tries++) {
      const [waiting] = await this.test.query<{ pid: number }>(
        `select pid from pg_locks where locktype = 'advisory' and objid = ${GATE} and not granted`,
      );
      if (waiting) return waiting.pid;
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    throw new Error('Nobody came to the gate within 5 s.');
  }

  async open(): Promise<void> {
    await this.holder.end();
  }
}

/** Resolves when this many connections of the database wait for a lock that another one holds. */
export async function blocked(test: TestDatabase, connections: number): Promise<void> {
  for (let tries = 0; tries < 1_000; tries++) {
    const rows = await test.query(
      `select from pg_stat_activity where datname = current_database() and cardinality(pg_blocking_pids(pid)) > 0`,
    );
    if (rows.length >= connections) return;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  throw new Error(`Fewer than ${connections} connections were blocked within 5 s.`);
}
