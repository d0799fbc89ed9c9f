import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import * as library from '../../lib/index.js';

const root = new URL('../../', import.meta.url);
const PAGE = readFileSync(new URL('docs/errors.md', root), 'utf8');

/** Of each class that has several, the codes that the page lists. */
function listed(): [string, string][] {
  let type = '';
  return [...PAGE.matchAll(/^\| (?:`(\w+)`|) ?\| `([\w-]+)` \|/gm)].map(([, named, code]) => {
    type = named ?? type;
    return [type, code!];
  });
}

function thrown(): [string, string][] {
  const sources = readdirSync(new URL('lib/', root), { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.ts'))
    .map((path) => readFileSync(new URL(`lib/${path}`, root), 'utf8'));
  const raised = /new (UsageError|SetupError|OperationRefusedError|NotFoundError)\(\s*'([\w-]+)'/g;
  return sources.flatMap((text) =>
    [...text.matchAll(raised)].map(([, type, code]): [string, string] => [type!, code!]),
  );
}

const sorted = (pairs: [string, string][]) => [...new Set(pairs.map(([type, code]) => `${type} ${code}`))].sort();

describe('docs/errors.md', () => {
  it('lists just the codes that are thrown, with the class of each', () => {
    const types = new Set(thrown().map(([type]) => type));
    expect(sorted(listed().filter(([type]) => types.has(type)))).toEqual(sorted(thrown()));
  });

  it('names every error class that the package exports', () => {
    const classes = Object.entries(library)
      .filter(([, value]) => typeof value === 'function' && value.prototype instanceof library.SchedulerError)
      .map(([name]) => name);
    expect(classes.length).toBeGreaterThan(10);
    for (const name of classes) expect(PAGE).toContain(`\`${name}\``);
  });
});
