import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import ts from 'typescript';
import { createTestDatabase, type TestDatabase } from '../support/database.js';

const ROOT = new URL('../../', import.meta.url);

/** Runs the tests of a file as Jest would. */
const RUNNER = `
globalThis.expect = require('expect').expect;
const tests = [];
globalThis.it = (title, work) => tests.push(work());
require('./app.module.spec.js');
Promise.all(tests).then(() => console.log('passed: ' + tests.length));
`;

/** README's main.ts, in the words of its sentence about it, without a port. */
const MAIN = `
const { NestFactory } = require('@nestjs/core');
NestFactory.createApplicationContext(require('./app.module.js').AppModule).then((app) => app.enableShutdownHooks());
`;

describe('README: the first job and its test', () => {
  let database: TestDatabase;
  let folder: string;
  let started: ChildProcess | undefined;

  beforeAll(async () => {
    database = await createTestDatabase();
    folder = await mkdtemp(fileURLToPath(new URL('dist/readme-', ROOT)));
    const page = await readFile(new URL('README.md', ROOT), 'utf8');
    const files = [...page.matchAll(/^```ts\n\/\/ (\S+)\.ts\n([^]*?)^```/gm)];
    expect(files.map(([, name]) => name)).toEqual(['app.module', 'app.module.spec']);
    for (const [, name, text] of files) await writeFile(`${folder}/${name}.js`, compiled(text!));
    await writeFile(`${folder}/package.json`, '{ "type": "commonjs" }');
    await writeFile(`${folder}/runner.js`, RUNNER);
    await writeFile(`${folder}/main.js`, MAIN);
  });
  afterAll(async () => {
    started?.kill('SIGKILL');
    await rm(folder, { recursive: true, force: true });
    await database.drop();
  });

  const env = (more: NodeJS.ProcessEnv) => ({ ...process.env, NODE_OPTIONS: '', DATABASE_URL: database.url, ...more });

  it('the test passes, against a database of one’s own', async () => {
    const { stdout } = await promisify(execFile)('node', ['runner.js'], {
      cwd: folder,
      env: env({ NODE_ENV: 'test' }),
    });
    expect(stdout).toMatch(/It is .*, attempt 1\.[^]*passed: 1/);
  });

  it('the job runs at its next fire time, with no warning at the start, and the process ends at SIGTERM', async () => {
    const child = spawn('node', ['main.js'], { cwd: folder, env: env({ NODE_ENV: '' }) });
    started = child;
    const exited = once(child, 'exit');
    const lines: string[] = [];
    for await (const line of createInterface(child.stdout)) {
      lines.push(line);
      if (/^It is \S+0\.000Z, attempt 1\.$/.test(line)) child.kill();
    }
    const [code, signal] = await exited;
    expect({ code, signal }).toEqual({ code: null, signal: 'SIGTERM' });
    // A busy machine may take longer to start than the job's ten seconds.
    expect(lines.filter((line) => /WARN|ERROR/.test(line) && !line.includes('missed occurrences'))).toEqual([]);
    expect(lines.join('\n')).toContain('greeting "*/10 * * * * *" (UTC) next ');
  });
});

function compiled(text: string): string {
  return ts.transpileModule(text, {
    compilerOptions: {
      target: ts.ScriptTarget.ES2022,
      module: ts.ModuleKind.CommonJS,
      experimentalDecorators: true,
      emitDecoratorMetadata: true,
    },
  }).outputText;
}
