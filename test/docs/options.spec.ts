import { readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { formatDuration } from '../../lib/options/duration.js';
import { JOB_OPTIONS, MODULE_OPTIONS } from '../../lib/options/defaults.js';

const ROOT = new URL('../../', import.meta.url);
const read = (path: string) => readFileSync(new URL(path, ROOT), 'utf8');

/** What a section's tables say: the default of each option, those of a row that names several by their place. */
function options(page: string, heading: string): Map<string, string> {
  const section = page.split(/^## /m).find((text) => text.startsWith(heading))!;
  const rows = [...section.matchAll(/^\| (`.+?) \|(.*?)\|/gm)];
  return new Map(
    rows.flatMap(([, names, defaults]) => {
      const all = defaults!.split(', ');
      const named = [...names!.matchAll(/`(\w+)`/g)];
      return named.map(
        ([, name], place) =>
          [name!, (named.length > 1 ? (all[place] ?? all[0]!) : defaults!).trim().replaceAll('`', '')] as const,
      );
    }),
  );
}

const WRITTEN: Record<string, string> = { '1d': '24h', '1m': '60s' };

/** A default in the page's words. */
function told(byDefault: unknown, ms: boolean): string {
  if (!ms || byDefault === 0) return String(byDefault);
  const duration = formatDuration(byDefault as number);
  return WRITTEN[duration] ?? duration;
}

const COUNTS = ['queueLimit', 'maxCatchUp', 'maxAttempts', 'maxConcurrentRuns', 'poolSize', 'receiptPoolSize'];
const simple = (table: Record<string, { rule: unknown; byDefault?: unknown }>) =>
  Object.entries(table)
    .filter(([, { byDefault }]) => ['number', 'string', 'boolean'].includes(typeof byDefault))
    .map(([name, { byDefault }]) => [name, told(byDefault, typeof byDefault === 'number' && !COUNTS.includes(name))]);

describe('docs/options.md', () => {
  const page = read('docs/options.md');
  const job = options(page, 'For each job');
  const module = options(page, 'For the module');

  it('has every option, and no other', () => {
    expect([...job.keys()].sort()).toEqual(Object.keys(JOB_OPTIONS).sort());
    expect([...module.keys()].sort()).toEqual(Object.keys(MODULE_OPTIONS).sort());
  });

  it.each(simple(JOB_OPTIONS))('says that %s of a job is %s by default', (name, byDefault) =>
    expect(job.get(name!)).toBe(byDefault),
  );

  it.each(simple(MODULE_OPTIONS).filter(([name]) => name !== 'schema'))(
    'says that %s of the module is %s by default',
    (name, byDefault) => expect(module.get(name!)).toBe(byDefault),
  );
});
