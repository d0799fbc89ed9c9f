/**
 * `npm run house`: how large the code is, and how its folders depend on each other. `npm run house -- --check` fails on
 * an import that points up and is not among the known ones, and on a circle of files.
 */
import { readFileSync } from 'node:fs';
import { execFileSync } from 'node:child_process';
import { dirname, normalize } from 'node:path';

/** From the ground up: a folder imports those before it. */
const FLOORS = [
  'errors',
  'cron',
  'options',
  'database',
  'observe',
  'jobs',
  'runs',
  'receipts',
  'catch-up',
  'fan-out',
  'operations',
  'maintenance',
  'lifecycle',
  'bullmq',
  'trigger',
  'testing',
  '.',
  'schedule',
  'cli',
];

/** Imports that still point up, by folder: each is a rule without an owner yet. The list only gets shorter. */
const KNOWN = JSON.parse(readFileSync(new URL('./house.known.json', import.meta.url), 'utf8'));

const files = execFileSync('git', ['ls-files', '-co', '--exclude-standard', 'lib/*.ts', 'lib/**/*.ts'])
  .toString()
  .trim()
  .split('\n');
const texts = new Map(files.map((file) => [file, readFileSync(file, 'utf8')]));
const imports = new Map(files.map((file) => [file, [...importsOf(file, texts.get(file))]]));

const upward = files.flatMap((file) =>
  imports
    .get(file)
    .filter((to) => floorOf(to) > floorOf(file))
    .map((to) => `${folderOf(file)} -> ${folderOf(to)}: ${file.slice(4)} -> ${to.slice(4)}`),
);
const unknown = upward.filter((arrow) => !KNOWN.includes(arrow));
const gone = KNOWN.filter((arrow) => !upward.includes(arrow));
const circle = circleOfFiles();

if (process.argv.includes('--check')) {
  for (const arrow of unknown)
    console.error(`An import points up: ${arrow}. Folders import those before them: ${FLOORS.join(', ')}.`);
  for (const arrow of gone) console.error(`This import is gone; take it out of scripts/house.known.json: ${arrow}`);
  if (circle) console.error(`A circle of files: ${circle.join(' -> ')}`);
  process.exitCode = unknown.length + gone.length > 0 || circle ? 1 : 0;
} else {
  const lines = (file) => texts.get(file).split('\n').length - 1;
  const count = (keep) => files.filter(keep).length;
  console.log(
    `lib: ${files.length} files, ${files.reduce((sum, file) => sum + lines(file), 0)} lines (aim 160 and 20,000)`,
  );
  console.log(`under 30 lines: ${count((file) => lines(file) < 30)}; over 300: ${count((file) => lines(file) > 300)}`);
  console.log(
    `lines over 120 columns: ${[...texts.values()].reduce((sum, text) => sum + text.split('\n').filter((line) => line.length > 120).length, 0)}`,
  );
  console.log(`imports that point up: ${upward.length}; circle of files: ${circle ? circle.join(' -> ') : 'none'}`);
  const path = pathOfAnOccurrence();
  console.log(
    `due to end: ${path.length} files, ${path.reduce((sum, file) => sum + lines(file), 0)} lines of TypeScript (aim 20 and 2,500)`,
  );
  for (const floor of FLOORS) {
    const its = files.filter((file) => folderOf(file) === floor);
    console.log(
      `  ${floor.padEnd(12)} ${String(its.length).padStart(4)} files ${String(its.reduce((sum, file) => sum + lines(file), 0)).padStart(6)} lines`,
    );
  }
}

function* importsOf(file, text) {
  for (const [, specifier] of text.matchAll(/(?:from|import) '(\.[^']+)'/g)) {
    const to = normalize(`${dirname(file)}/${specifier}`).replace(/\.js$/, '.ts');
    if (texts.has(to)) yield to;
  }
}

function folderOf(file) {
  return file.split('/').length > 2 ? file.split('/')[1] : '.';
}

function floorOf(file) {
  const floor = FLOORS.indexOf(folderOf(file));
  if (floor < 0) throw new Error(`scripts/house.mjs does not know the folder of ${file}`);
  return floor;
}

function circleOfFiles() {
  const state = new Map();
  const trail = [];
  const visit = (file) => {
    if (state.get(file) === 'done') return null;
    if (state.get(file) === 'open') return [...trail.slice(trail.indexOf(file)), file];
    state.set(file, 'open');
    trail.push(file);
    for (const to of imports.get(file)) {
      const found = visit(to);
      if (found) return found;
    }
    trail.pop();
    state.set(file, 'done');
    return null;
  };
  for (const file of files) {
    const found = visit(file);
    if (found) return found;
  }
  return null;
}

/** The files that docs/architecture.md names under "The path of one occurrence". */
function pathOfAnOccurrence() {
  const [, section = ''] = readFileSync('docs/architecture.md', 'utf8').split('## The path of one occurrence');
  return [...new Set(section.split('\n## ')[0].match(/lib\/[\w./-]+\.ts/g) ?? [])];
}
