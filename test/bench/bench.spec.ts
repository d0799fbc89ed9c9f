import { expect, it } from '@jest/globals';
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));

/** As a person runs it, but for the build before it: other tests are using what is built. */
function bench(...flags: string[]): Promise<{ code: number; output: string; errors: string }> {
  return new Promise((resolve) => {
    execFile(
      'npm',
      ['run', '--silent', '--ignore-scripts', 'bench', '--', ...flags],
      { cwd: ROOT, timeout: 60_000 },
      (error, output, errors) => resolve({ code: error ? Number(error.code ?? 1) : 0, output, errors }),
    );
  });
}

const EVERY_NAME = [
  'schedules',
  'boot',
  'memory',
  'tick',
  'burst',
  'fire-delay',
  'replicas',
  'idle',
  'take-over',
  'claim',
  'heartbeat',
  'receipts',
  'history',
  'month',
  'retention',
  'vacuum',
  'commits',
  'simulation',
];

/** All of them take four minutes: `npm run test:bench`. */
const NAMES = process.env.TEST_EVERY_BENCHMARK ? EVERY_NAME : ['claim', 'tick'];

it.each(NAMES)(
  'the benchmark "%s" runs, and prints a figure a line',
  async (name) => {
    const { code, output, errors } = await bench('--only', name, '--json', '--quick');
    expect({ code, errors }).toEqual({ code: 0, errors: expect.stringMatching(/Node\.js v\d+.*, load \d/) });
    const lines = output
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(lines).not.toEqual([]);
    for (const line of lines) {
      expect(Object.keys(line)).toEqual(['name', 'value', 'unit', 'floor', 'reach', 'ok']);
      expect(line.name).toMatch(new RegExp(`^${name}\\.[\\w-]+$`));
      expect([
        'ms',
        'µs',
        'MB',
        'a run',
        'a second',
        'a beat',
        'a start',
        'share',
        'times',
        '%',
        'bytes',
        'GB',
        'connections',
      ]).toContain(line.unit);
      expect(line.reach).toBeGreaterThan(0);
      // The least of some is nothing: an idle replica need not ask anything.
      for (const figure of [line.value, line.floor]) expect(figure).toBeGreaterThanOrEqual(0);
      expect(line.ok).toBe((line.value as number) <= (line.reach as number));
    }
    expect(new Set(lines.map((line) => line.name)).size).toBe(lines.length);
  },
  90_000,
);

it('a benchmark that does not exist is refused with the names of those that do', async () => {
  const { code, output, errors } = await bench('--only', 'tock', '--json');
  expect({ code, output }).toEqual({ code: 1, output: '' });
  expect(errors).toMatch(/no benchmark tock[^]*schedules, boot, memory, tick/);
});
