import { Injectable } from '@nestjs/common';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { DistributedCron } from '../../lib/index.js';
import { ReaperService } from '../../lib/runs/reaper.service.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { installedBinaries, startInstalledServer, type InstalledServer } from '../support/installed-server.mjs';
import { closeApps, nextRun, startApp } from './support/apps.js';

const MISSING = 'PostgreSQL with LLVM is not installed: apt-get install postgresql';
const binaries = process.env.TEST_POSTGRES ?? installedBinaries();

/**
 * Skipped, saying so, where there is no such server; in CI that fails. The embedded one is built without LLVM, and
 * compiles nothing.
 */
function describeWithCompiler(name: string, tests: () => void): void {
  if (binaries) return describe(name, tests);
  if (process.env.CI) return describe(name, () => it('has what it needs', () => Promise.reject(new Error(MISSING))));
  process.stderr.write(`Skipped: ${name}. ${MISSING}\n`);
  describe.skip(`${name} (${MISSING})`, tests);
}

describeWithCompiler('a server that compiles what it takes for dear', () => {
  let server: InstalledServer | undefined;
  let database: TestDatabase;
  beforeAll(async () => {
    server = await startInstalledServer(binaries!, [
      'shared_preload_libraries=pg_stat_statements',
      'pg_stat_statements.track=all',
    ]);
    database = await createTestDatabase(server.url);
    await database.query('create extension pg_stat_statements');
  });
  afterAll(async () => {
    await closeApps();
    await database?.drop();
    await server?.stop();
  });

  it('G15 compiles none of the statements that an idle scheduler repeats, nor those of a run', async () => {
    expect(await database.query('select pg_jit_available() as available')).toEqual([{ available: true }]);
    @Injectable()
    class Jobs {
      @DistributedCron('* * * * * *', { name: 'busy' })
      busy() {}

      @DistributedCron('0 0 1 1 *', { name: 'idle' })
      idle() {}
    }
    const app = await startApp(database, { providers: [Jobs] }, { pollInterval: '100ms' });
    const reaper = app.get(ReaperService, { strict: false });
    await nextRun(app, 'busy');
    await nextRun(app, 'busy');
    await reaper.reap();
    await closeApps();
    const calls = await database.query<{ query: string; compiled: boolean }>(
      `select query, jit_functions > 0 as compiled
       from   pg_stat_statements
       join   pg_database on oid = dbid
       where  datname = current_database()`,
    );
    expect(calls.filter(({ query }) => /insert into .*job_runs/s.test(query)).length).toBeGreaterThan(0);
    expect(calls.filter(({ compiled }) => compiled).map(({ query }) => query.slice(0, 200))).toEqual([]);
  });
});
