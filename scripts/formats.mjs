import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, relative } from 'node:path';
import { build, transform } from 'esbuild';

/**
 * Makes the CommonJS build of what tsc has made, and the package's entries. A process that loads both formats gets one
 * set of classes: that of the format it has loaded first. Run by `npm run build`.
 */
const { version } = createRequire(import.meta.url)('../package.json');
const SHARED = `Symbol.for('nestjs-distributed-cron ${version}')`;

/** The sub-paths of the package, and the file that each stands for. */
const ENTRIES = {
  index: 'lib/index',
  migrations: 'migrations/index',
  testing: 'lib/testing/index',
  trigger: 'lib/trigger/index',
  bullmq: 'lib/bullmq/index',
  schedule: 'lib/schedule/index',
};

/** Dependencies without a CommonJS build, which comes along. */
const ES_MODULES_ONLY = ['temporal-polyfill'];

/** Run by Node itself, and imported by nothing. */
const COMMAND_LINE = 'lib/cli/';

const DIST = 'dist';
const CJS = join(DIST, 'cjs');

for (const file of filesOf(DIST)) await toCommonJs(file);
for (const name of ES_MODULES_ONLY) {
  const outfile = join(CJS, vendored(name));
  await build({
    entryPoints: [name],
    outfile,
    bundle: true,
    minify: true,
    format: 'cjs',
    platform: 'node',
    target: 'node20',
  });
}
write(join(CJS, 'package.json'), '{ "type": "commonjs" }\n');
for (const [name, file] of Object.entries(ENTRIES)) await writeEntries(name, file);

/** @returns what tsc has made of lib and migrations: scripts and their types */
function filesOf(folder) {
  return ['lib', 'migrations'].flatMap((part) =>
    readdirSync(join(folder, part), { recursive: true })
      .map((file) => join(part, file))
      .filter((file) => /\.js$|\.d\.ts$/.test(file) && !file.startsWith(COMMAND_LINE)),
  );
}

async function toCommonJs(file) {
  const text = readFileSync(join(DIST, file), 'utf8');
  if (file.endsWith('.d.ts')) return write(join(CJS, file), text.replace(/^\/\/# sourceMappingURL.*$/m, ''));
  const { code } = await transform(text.replace(/^\/\/# sourceMappingURL.*$/m, ''), {
    format: 'cjs',
    platform: 'node',
    target: 'node20',
    supported: { 'dynamic-import': true },
    define: { 'import.meta.url': 'importMetaUrl' },
  });
  const known = code.includes('importMetaUrl')
    ? `const importMetaUrl = require('node:url').pathToFileURL(__filename).href;\n`
    : '';
  // Modules are strict; what is made of them has to say so, before anything else.
  const strict = `'use strict';\n${known}${code}`;
  write(
    join(CJS, file),
    ES_MODULES_ONLY.reduce((all, name) => withVendored(all, name, file), strict),
  );
}

function withVendored(code, name, file) {
  const path = relative(dirname(file), vendored(name)).replaceAll('\\', '/');
  return code.replaceAll(`require("${name}")`, `require("${path}")`);
}

function vendored(name) {
  return `vendor/${name}.js`;
}

async function writeEntries(name, file) {
  const names = Object.keys(await import(new URL(`../${DIST}/${file}.js`, import.meta.url))).filter(
    (one) => one !== 'default',
  );
  write(
    join(CJS, `${name}.js`),
    `'use strict';
const formats = (globalThis[${SHARED}] ??= {});
formats.first ??= 'cjs';
module.exports = formats['${name}'] ??= formats.first === 'cjs' ? require('./${file}.js') : require('../${file}.js');
`,
  );
  write(
    join(DIST, `${name}.js`),
    `import { createRequire } from 'node:module';
import * as own from './${file}.js';
const formats = (globalThis[${SHARED}] ??= {});
formats.first ??= 'esm';
const all = (formats['${name}'] ??= formats.first === 'esm' ? own : createRequire(import.meta.url)('./cjs/${file}.js'));
${names.map((one) => `export const ${one} = all.${one};`).join('\n')}
`,
  );
}

function write(path, text) {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
}
