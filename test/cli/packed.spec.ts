import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { DistributedCron } from '../../lib/index.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { closeApps, startApp } from '../integration/support/apps.js';

const run = promisify(execFile);
const ROOT = fileURLToPath(new URL('../../', import.meta.url));

let database: TestDatabase;
let application: string;

/** The package as it is published, linked by npm; its dependencies are those that are here. */
beforeAll(async () => {
  database = await createTestDatabase();
  application = mkdtempSync(join(tmpdir(), 'packed-'));
  const modules = join(application, 'node_modules');
  const packageDirectory = join(modules, 'nestjs-distributed-cron');
  mkdirSync(packageDirectory, { recursive: true });
  await run('npm', ['pack', '--ignore-scripts', '--silent', '--pack-destination', application], { cwd: ROOT });
  const [archive] = readdirSync(application).filter((name) => name.endsWith('.tgz'));
  await run('tar', ['-xzf', join(application, archive!), '-C', packageDirectory, '--strip-components=1']);
  for (const name of readdirSync(join(ROOT, 'node_modules'))) {
    if (!name.startsWith('.') && name !== 'nestjs-distributed-cron')
      symlinkSync(join(ROOT, 'node_modules', name), join(modules, name));
  }
  writeFileSync(
    join(application, 'package.json'),
    JSON.stringify({ name: 'application', version: '1.0.0', dependencies: { 'nestjs-distributed-cron': '*' } }),
  );
  await run('npm', ['rebuild', '--ignore-scripts', '--offline', 'nestjs-distributed-cron'], { cwd: application });
});
afterAll(async () => {
  await closeApps();
  await database.drop();
  rmSync(application, { recursive: true, force: true });
});

it('npx nestjs-distributed-cron, from the packed package: helps, delivers, and ends with its exit code', async () => {
  const npx = (...args: string[]) =>
    run('npx', ['--offline', 'nestjs-distributed-cron', ...args], {
      cwd: application,
      env: { ...process.env, DATABASE_URL: database.url },
    }).then(
      ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
      (error: { code: number; stdout: string; stderr: string }) => ({
        code: error.code,
        stdout: error.stdout,
        stderr: error.stderr,
      }),
    );
  expect(await npx('--help')).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('trigger <job>'),
  });

  @Injectable()
  class Exports {
    @DistributedCron('* * * * *', {
      name: 'export',
      owner: 'billing',
      overlap: 'forbid',
      missed: 'once',
      trigger: 'external',
    })
    export(): void {}
  }
  await startApp(database, { providers: [Exports] }, { pollInterval: 200 });
  await database.query(`update job_schedule set effective_from = '2020-01-01', decided_until = '2020-01-01'`);
  expect(await npx('trigger', 'export', '--wait', '30s')).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^export of .* is done\.\n$/),
    stderr: '',
  });
  expect(await npx('trigger', 'exprot')).toMatchObject({
    code: 3,
    stdout: '',
    stderr: 'There is no job "exprot"; did you mean "export"?\n',
  });
  expect(await npx('trigger')).toMatchObject({ code: 2 });
});
