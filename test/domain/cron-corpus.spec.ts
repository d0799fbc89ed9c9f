import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, it } from '@jest/globals';

const RUNNER = fileURLToPath(new URL('../cases/corpus-run.mjs', import.meta.url));
const ADAPTER = fileURLToPath(new URL('../cases/corpus-adapter.mjs', import.meta.url));

describe('the corpus of cases from other cron engines', () => {
  it.each([
    ['UTC', 'Australia/Lord_Howe,America/New_York'],
    ['Australia/Lord_Howe', 'America/New_York,UTC'],
    ['America/New_York', 'UTC,Australia/Lord_Howe'],
  ])('passes on a host in %s, and gives the same instants on hosts in %s', async (host, others) => {
    const run = promisify(execFile)(process.execPath, [RUNNER, ADAPTER, '--host-tz', `${host},${others}`]);
    const { stdout } = await run.catch((failed: { stdout: string }) => failed);
    const total = stdout.trim().split('\n').at(-1);
    if (!/failures 0, unsupported 0, cases breaking a property 0, hangs 0$/.test(total ?? '')) {
      throw new Error(stdout);
    }
    expect(stdout).toContain('== variants taken: star-and 2, accept 2');
  });
});
