import { cp, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../../../', import.meta.url));

/** The functions of a protocol end in its version. */
const FUNCTIONS = /\b([a-z][a-z_]*)_1\b/g;
/** What those migrations do to tables: it is done, and would wait for transactions that have them. */
const TABLES = /`alter table @schema\.\w+ add column [^`]*`,/g;
const OF_FUNCTIONS = /create (or replace )?function @schema\.\w+_1\b/;

/** A build of this package as a later release would be: another version of the protocol, by migrations of its own. */
export interface NextRelease {
  /** What a replica of it runs. */
  readonly program: string;
  remove(): Promise<void>;
}

/**
 * Makes it of the present build: its code calls functions that end in `_2`, and its migrations, which come after those
 * of this release, create them beside those that end in `_1`.
 */
export async function buildNextRelease(): Promise<NextRelease> {
  const place = await mkdtemp(join(tmpdir(), 'next-release-'));
  const replica = join('test', 'cluster', 'replica', 'dist');
  await cp(join(ROOT, 'package.json'), join(place, 'package.json'));
  await cp(join(ROOT, 'dist'), join(place, 'dist'), {
    recursive: true,
    filter: (path) => !path.startsWith(join(ROOT, 'dist', 'cjs')) && !path.endsWith('.map'),
  });
  await cp(join(ROOT, replica), join(place, replica), { recursive: true });
  await symlink(join(ROOT, 'node_modules'), join(place, 'node_modules'));
  for (const file of await readdir(join(place, 'dist', 'lib'), { recursive: true })) {
    if (file.endsWith('.js')) await rewrite(join(place, 'dist', 'lib', file), nextProtocol);
  }
  await addMigrations(join(place, 'dist', 'migrations'));
  return { program: join(place, replica, 'main.js'), remove: () => rm(place, { recursive: true, force: true }) };
}

async function addMigrations(folder: string): Promise<void> {
  const added: { name: string; file: string }[] = [];
  for (const file of await readdir(folder)) {
    const text = file.endsWith('.js') ? await readFile(join(folder, file), 'utf8') : '';
    if (!OF_FUNCTIONS.test(text)) continue;
    const name = /export const (\w+) = migration/.exec(text)![1]!;
    added.push({ name, file: next(file) });
    await writeFile(join(folder, next(file)), next(nextProtocol(text.replace(TABLES, ''))));
  }
  await rewrite(join(folder, 'index.js'), (index) =>
    [
      ...added.map(({ name, file }) => `import { ${name} as ${name}Next } from './${file}';`),
      index.replace(
        /(const creations = \[[^\]]*?),?\s*\]/,
        `$1, ${added.map(({ name }) => `${name}Next`).join(', ')}]`,
      ),
    ].join('\n'),
  );
}

/** The numbers of a later release's migrations. */
function next(text: string): string {
  return text.replaceAll('17960000', '17970000');
}

function nextProtocol(text: string): string {
  return text.replace(FUNCTIONS, '$1_2');
}

async function rewrite(path: string, change: (text: string) => string): Promise<void> {
  await writeFile(path, change(await readFile(path, 'utf8')));
}
