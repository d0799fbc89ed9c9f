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

/** Runs one story of support/exits.mjs as a process of its own; one that stays is killed, and has no code. */
async function run(story: string, env: Record<string, string | undefined>): Promise<Exit> {
  const script = fileURLToPath(new URL('support/exits.mjs', import.meta.url));
  const child = spawn(process.execPath, [script, story], { env: { ...process.env, NODE_ENV: undefined, NODE_OPTIONS: undefined, ...env }, stdio: ['ignore', 'pipe', 'inherit'] });
  const impatience = setTimeout(() => child.kill('SIGKILL'), 15_000);
  const [output, [code]] = await Promise.all([text(child.stdout), once(child, 'exit') as Promise<[number | null]>]);
  clearTimeout(impatience);
  const said = output.trim().split('\n').map((line) => JSON.parse(line) as Record<string, unknown>);
  const lingeredMs = Date.now() - Number(said.at(-1)?.at);
  return { code, said: said.map(({ at: _, ...what }) => what), lingeredMs };
}

describe('a process ends by itself, with nothing left open, when its application', () => {
  it.each([
    ['closed', { closed: true }],
    ['idle', { closed: true }],
    ['bad job', { failed: 'InvalidJobsError' }],
    ['missing tables', { failed: 'MissingTablesError' }],
    ['unreachable', { failed: 'DatabaseConnectionError' }],
    ['no password', { failed: 'DatabaseConnectionError' }],
    ['second scheduler', { failed: 'RepeatedModuleError' }],
    ['failing provider', { message: 'factory failed' }],
    ['failing onModuleInit', { message: 'onModuleInit failed' }],
    ['failing onApplicationBootstrap', { message: 'onApplicationBootstrap failed' }],
  ])('is: %s', async (story, said) => {
    const exit = await run(story, { DATABASE_URL: database.url });
    expect(exit.said).toEqual([expect.objectContaining(said)]);
    expect(exit.code).toBe(0);
    expect(exit.lingeredMs).toBeLessThan(2_000);
  });

  it.each([
    ['closed', { closed: true }],
    ['bad job', { failed: 'InvalidJobsError' }],
    ['failing onApplicationBootstrap', { message: 'onApplicationBootstrap failed' }],
  ])('is, on an embedded server: %s', async (story, said) => {
    const exit = await run(story, { DATABASE_URL: undefined });
    expect(exit.said).toEqual([expect.objectContaining(said)]);
    expect(exit.code).toBe(0);
    expect(exit.lingeredMs).toBeLessThan(3_000);
  });
});
