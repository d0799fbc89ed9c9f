import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { isRegistryReachable, npm, packInto } from './support/npm.js';

/** What `nest new` of @nestjs/cli 11 makes, without its linters, with two jobs and their specs added. */
const SCAFFOLD = fileURLToPath(new URL('stock-nest11/', import.meta.url));

const maybe = (await isRegistryReachable()) || process.env.CI ? it : it.skip;

interface Results {
  readonly success: boolean;
  readonly numPassedTests: number;
  readonly testResults: readonly { readonly message: string }[];
}

let folder: string;
let database: TestDatabase;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'stock-nest11-'));
  database = await createTestDatabase();
});
afterAll(async () => {
  await database.drop();
  rmSync(folder, { recursive: true, force: true });
});

describe('an application as nest new 11 makes it', () => {
  maybe(
    'runs its unit and end-to-end tests with jobs in it, compiles, and is configured for nothing',
    async () => {
      cpSync(SCAFFOLD, folder, { recursive: true });
      const manifest = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as {
        dependencies: Record<string, string>;
      };
      const file = await packInto(folder);
      Object.assign(manifest.dependencies, { 'nestjs-distributed-cron': `file:./${file}`, pg: '^8', typeorm: '^0.3' });
      writeFileSync(join(folder, 'package.json'), JSON.stringify(manifest));
      await npm(['install', '--prefer-offline'], folder, 240_000);
      const jest = async (script: string) => {
        const report = join(folder, `${script.replace(':', '-')}.json`);
        const args = ['run', script, '--', '--json', `--outputFile=${report}`, '--runInBand'];
        await npm(args, folder, 120_000, { DATABASE_URL: database.url }).catch(() => {});
        return JSON.parse(readFileSync(report, 'utf8')) as Results;
      };
      const passed = { success: true, numPassedTests: 3, testResults: expect.anything() };
      expect(await jest('test')).toMatchObject(passed);
      expect(await jest('test:e2e')).toMatchObject({ ...passed, numPassedTests: 1 });
      await npm(['exec', '--', 'tsc', '--noEmit', '-p', 'tsconfig.json'], folder, 120_000);
    },
    600_000,
  );
});
