import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';

const ROOT = new URL('../../', import.meta.url);
const PAGE = readFileSync(new URL('docs/troubleshooting.md', ROOT), 'utf8');

const SOURCE = ['lib', 'migrations']
  .flatMap((folder) =>
    readdirSync(new URL(folder, ROOT), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.ts'))
      .map((name) => readFileSync(new URL(`${folder}/${name}`, ROOT), 'utf8')),
  )
  .join('\n')
  // Texts that go on in the next line are one.
  .replace(/['`]\s*\+\s*['`]/g, '')
  .replaceAll("\\'", "'");

/** The messages of a table's first column. */
const MESSAGES = PAGE.split('\n')
  .filter((line) => line.startsWith('| `'))
  .flatMap((line) => [...line.split(' | ')[0]!.matchAll(/`([^`]+)`/g)].map(([, message]) => message!));

describe('docs/troubleshooting.md', () => {
  it.each(MESSAGES)('%s is what the library says', (message) => {
    // Dots stand for values, which the source has in braces.
    const parts = message.split(/[…"]| \d+ /).map((part) => part.trim());
    const long = parts.filter((part) => part.length > 4);
    expect(long).not.toEqual([]);
    expect(long.filter((part) => !SOURCE.includes(part))).toEqual([]);
  });
});
