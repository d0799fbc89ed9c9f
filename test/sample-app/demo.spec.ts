import { expect, it } from '@jest/globals';
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const DEMO = fileURLToPath(new URL('../../sample-app/dist/demo/main.js', import.meta.url));

interface Ended {
  readonly code: number;
  readonly output: string;
}

function run(...flags: string[]): Promise<Ended> {
  return new Promise((resolve) => {
    execFile(
      process.execPath,
      ['--no-warnings', DEMO, ...flags],
      { env: { ...process.env, DATABASE_URL: '' }, timeout: 240_000 },
      (error, output) => resolve({ code: error ? Number(error.code ?? 1) : 0, output }),
    );
  });
}

it('the sample application kills and freezes its replicas, and every guarantee it shows holds', async () => {
  const { code, output } = await run('--json');
  const verdict = JSON.parse(output.trim().split('\n').at(-1)!) as { held: boolean; broken: string[] };
  expect(verdict).toMatchObject({ held: true, broken: [] });
  expect(code).toBe(0);
}, 300_000);

it('an unknown flag is refused with a sentence', async () => {
  expect(await run('--jsn')).toMatchObject({ code: 1 });
});
