import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { createTestDatabase, type TestDatabase } from '../support/database.js';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database.drop());

interface Exit {
  readonly code: number | null;
  /** What the process said, without the times. */
  readonly said: Record<string, unknown>[];
  /** From its last word to its end, milliseconds. */
  readonly lingeredMs: number;
}

/**
 * Runs one story of support/exits.mjs as a process of its own; one that stays is killed, and has no code. Its start
 * takes long on a busy machine.
 */
async function run(story: string, env: Record<string, string | undefined>, patienceMs = 60_000): Promise<Exit> {
  const script = fileURLToPath(new URL('support/exits.mjs', import.meta.url));
  const child = spawn(process.execPath, [script, story], {
    env: { ...process.env, NODE_ENV: undefined, NODE_OPTIONS: undefined, ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const impatience = setTimeout(() => child.kill('SIGKILL'), patienceMs);
  const [output, [code]] = await Promise.all([text(child.stdout), once(child, 'exit') as Promise<[number | null]>]);
  clearTimeout(impatience);
  if (output === '') throw new Error(`"${story}" said nothing within ${patienceMs} ms: exit code ${code}`);
  const said = output
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>);
  const lingeredMs = Date.now() - Number(said.at(-1)?.at);
  return { code, said: said.map(({ at: _, ...what }) => what), lingeredMs };
}

describe('B33 a process ends by itself, with nothing left open, when its application', () => {
  it.each([
    ['closed', { closed: true }],
    ['idle', { closed: true }],
    ['bad job', { failed: 'invalid-options' }],
    ['missing tables', { failed: 'missing-tables' }],
    ['unreachable', { failed: 'database-unreachable' }],
    ['no password', { failed: 'database-unreachable' }],
    ['second scheduler', { failed: 'invalid-module' }],
    ['failing provider', { message: 'factory failed' }],
    ['failing onModuleInit', { message: 'onModuleInit failed' }],
    ['failing onApplicationBootstrap', { message: 'onApplicationBootstrap failed' }],
  ])(
    'is: %s',
    async (story, said) => {
      const exit = await run(story, { DATABASE_URL: database.url });
      expect(exit.said).toEqual([expect.objectContaining(said)]);
      expect(exit.code).toBe(0);
      expect(exit.lingeredMs).toBeLessThan(2_000);
    },
    90_000,
  );

  it.each([
    ['closed', { closed: true }],
    ['bad job', { failed: 'invalid-options' }],
    ['failing onApplicationBootstrap', { message: 'onApplicationBootstrap failed' }],
  ])(
    'is, on an embedded server: %s',
    async (story, said) => {
      const exit = await run(story, { DATABASE_URL: undefined });
      expect(exit.said).toEqual([expect.objectContaining(said)]);
      expect(exit.code).toBe(0);
      expect(exit.lingeredMs).toBeLessThan(3_000);
    },
    90_000,
  );
});

describe('a process that starts and closes forty applications', () => {
  it('holds no more timers, sockets, threads, files or listeners than after five, and warns of nothing', async () => {
    const exit = await run('started again and again', { DATABASE_URL: database.url }, 240_000);
    const [{ few, many }] = exit.said as [{ few: object; many: object }];
    expect(exit.said.slice(1)).toEqual([{ closed: true }]);
    expect(many).toEqual(few);
    expect(few).toMatchObject({ resources: expect.not.arrayContaining(['TCPSocketWrap', 'MessagePort']) });
    expect(exit.code).toBe(0);
  }, 250_000);
});
