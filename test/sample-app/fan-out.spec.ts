import { expect, it } from '@jest/globals';
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const PROGRAM = fileURLToPath(new URL('../../sample-app/dist/fan-out/main.js', import.meta.url));

it('a statement run in 200 pages on three replicas, one of them killed, has every statement once', async () => {
  const env = { ...process.env, FAN_OUT_CUSTOMERS: '2000' };
  const { code, output } = await new Promise<{ code: number; output: string }>((resolve) => {
    execFile(process.execPath, ['--no-warnings', PROGRAM, '--json'], { env, timeout: 280_000 }, (error, stdout) =>
      resolve({ code: error ? 1 : 0, output: stdout }),
    );
  });
  expect(JSON.parse(output.trim().split('\n').at(-1)!)).toMatchObject({
    held: true,
    status: 'done',
    pagesDone: 200,
    statements: 2_000,
    customers: 2_000,
  });
  expect(code).toBe(0);
}, 300_000);
