import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';

const ROOT = new URL('../../', import.meta.url);
const read = (path: string) => readFileSync(new URL(path, ROOT), 'utf8');

const DOCS = readdirSync(new URL('docs/', ROOT))
  .filter((name) => name.endsWith('.md'))
  .map((name) => `docs/${name}`);
const PAGES = ['README.md', 'CONTRIBUTING.md', 'CHANGELOG.md', 'SECURITY.md', 'sample-app/README.md', ...DOCS];

/** Where a page leads, without what is elsewhere. */
const linksOf = (page: string) =>
  [...read(page).matchAll(/\]\(([^)\s]+)\)/g)].map(([, to]) => to!).filter((to) => !/^https?:/.test(to));

/** As GitHub makes it of a heading. */
const anchor = (heading: string) =>
  heading
    .trim()
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, '')
    .replaceAll(' ', '-');

describe('links between the pages', () => {
  it.each(PAGES)('of %s lead to a page and a heading', (page) => {
    const broken = linksOf(page).filter((to) => {
      const [path, heading] = to.split('#');
      const at = path === '' ? new URL(page, ROOT) : new URL(path!, new URL(page, ROOT));
      if (!existsSync(at)) return true;
      if (heading === undefined) return false;
      return ![...readFileSync(at, 'utf8').matchAll(/^#+ (.+)$/gm)].some(([, text]) => anchor(text!) === heading);
    });
    expect(broken).toEqual([]);
  });

  it('README leads to every page, and is read in one sitting', () => {
    const linked = linksOf('README.md').map((to) => to.split('#')[0]);
    expect(DOCS.filter((page) => !linked.includes(page))).toEqual([]);
    expect(read('README.md').trimEnd().split('\n').length).toBeLessThanOrEqual(150);
  });
});
