import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import ts from 'typescript';

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

describe('examples', () => {
  const examples = PAGES.flatMap((page) =>
    [...read(page).matchAll(/^```ts\n([^]*?)^```/gm)].map(([, text], index): [string, string] => [
      `${page}, ${index + 1}`,
      text!,
    ]),
  );

  it.each(examples)('%s is TypeScript', (_, text) => {
    // A method and options of a decorator stand alone in a page, in a class and an object in code.
    const problems = [text, `class Example {\n${text}\nmethod() {}\n}`, `({\n${text}})`].map(problemsOf);
    expect(problems.some((found) => found.length === 0) ? [] : problems[0]).toEqual([]);
  });

  const imports = examples.flatMap(([place, text]) =>
    [...text.matchAll(/^import (?:type )?\{([^}]*)\} from '(nestjs-distributed-cron[^']*)'/gm)].map(
      ([, names, from]): [string, string, string[]] => [
        place,
        from!,
        names!.split(',').map((name) => name.replace(/^\s*type /, '').trim()),
      ],
    ),
  );

  it.each(imports)('%s imports from %s what it has', (_, from, names) => {
    const types = exportsOf(from);
    expect(names.filter((name) => !types.has(name))).toEqual([]);
  });
});

function problemsOf(text: string): string[] {
  const { diagnostics } = ts.transpileModule(text, {
    reportDiagnostics: true,
    compilerOptions: { target: ts.ScriptTarget.ESNext, module: ts.ModuleKind.ESNext, experimentalDecorators: true },
  });
  return diagnostics!.map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n'));
}

/** The names in the source of an entry, types included. */
function exportsOf(entry: string): Set<string> {
  const [, path] = entry.split('nestjs-distributed-cron');
  const source = { '': 'lib', '/migrations': 'migrations' }[path!] ?? `lib${path}`;
  const text = read(`${source}/index.ts`);
  const listed = [...text.matchAll(/export (?:type )?\{([^}]*)\}/g)].flatMap(([, names]) => names!.split(','));
  const declared = [...text.matchAll(/^export (?:const|function|class|interface|type) (\w+)/gm)].map(
    ([, name]) => name!,
  );
  return new Set([
    ...listed.map((name) =>
      name
        .replace(/^\s*type /, '')
        .replace(/^.* as /, '')
        .trim(),
    ),
    ...declared,
  ]);
}
