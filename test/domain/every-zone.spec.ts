import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, it } from '@jest/globals';

const SCRIPT = fileURLToPath(new URL('../../scripts/every-zone.mjs', import.meta.url));

it.each(['2026-01-01', '2011-06-01', '2018-01-01'])(
  '400 days from %s neither stall nor repeat in a sample of zones, forwards or backwards',
  async (from) => {
    const run = promisify(execFile)(process.execPath, [SCRIPT, '--every', '40', '--from', from]);
    const { stdout } = await run.catch((failed: { stdout: string }) => failed);
    expect(stdout).toMatch(/^\d\d zones, 9 schedules, \d+ fire times, 0 problems\n$/);
  },
  60_000,
);
