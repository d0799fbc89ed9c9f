import { execFile } from 'node:child_process';
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { isRegistryReachable, npm, packInto } from './support/npm.js';

const run = promisify(execFile);
const DEPENDENCIES = {
  '@nestjs/common': '11',
  '@nestjs/core': '11',
  '@nestjs/platform-express': '11',
  pg: '8',
  'reflect-metadata': '0.2',
  rxjs: '7',
  typeorm: '0.3',
};

const maybe = (await isRegistryReachable()) || process.env.CI ? it : it.skip;

let folder: string;
let database: TestDatabase;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'nest11-'));
  database = await createTestDatabase();
});
afterAll(async () => {
  await database.drop();
  rmSync(folder, { recursive: true, force: true });
});

interface Said {
  versions: string[];
  migrations: number;
  receipts: number;
  invoices: number;
  statuses: string[];
  end: string[];
  received: Record<string, string>;
  delivered: unknown[];
}

describe('the packed library', () => {
  maybe(
    'runs in a CommonJS application on NestJS 11 and TypeORM 0.3, and lets it end',
    async () => {
      const filename = await packInto(folder);
      const dependencies = { ...DEPENDENCIES, 'nestjs-distributed-cron': `file:./${filename}` };
      writeFileSync(join(folder, 'package.json'), JSON.stringify({ name: 'nest11-app', private: true, dependencies }));
      await npm(['install', '--prefer-offline'], folder, 90_000);
      copyFileSync(fileURLToPath(new URL('nest11.app.cjs', import.meta.url)), join(folder, 'app.cjs'));
      const env = { ...process.env, DATABASE_URL: database.url, NODE_OPTIONS: undefined, NODE_ENV: undefined };
      const app = await run(process.execPath, ['app.cjs'], { cwd: folder, env, timeout: 50_000 });
      const said = JSON.parse(app.stdout) as Said;
      expect(said.versions).toEqual([expect.stringMatching(/^11\./), expect.stringMatching(/^0\.3\./)]);
      expect(said.migrations).toBeGreaterThan(0);
      expect(said.receipts).toBeGreaterThanOrEqual(3);
      expect(said.invoices).toBe(said.receipts);
      expect(said.statuses).toContain('done');
      // A run of a second that takes longer on a busy machine has the next one skipped.
      expect(['done', 'skipped']).toEqual(expect.arrayContaining(said.statuses));
      expect(said.end).toEqual(['begin', 'end', 'connection closed']);
      expect(said.received).toEqual({ customers: 'a tenant', suppliers: 'suppliers', export: 'by a clock outside' });
      expect(said.delivered).toEqual([
        [401, null, null],
        [200, 'done', false],
        [200, 'done', true],
      ]);
      expect(app.stderr).toBe('');
    },
    150_000,
  );
});
