import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, it } from '@jest/globals';

const run = promisify(execFile);
const PROJECT = fileURLToPath(new URL('../..', import.meta.url));
const SUB_PATHS = ['', '/migrations', '/testing', '/trigger', '/bullmq', '/schedule'];

/** Loads all sub-paths in the given order of formats, by the package's own name. @returns what differs */
async function differences(first: 'import' | 'require'): Promise<unknown> {
  const load = {
    import: `for (const path of paths) imported[path] = await import('nestjs-distributed-cron' + path);`,
    require: `for (const path of paths) required[path] = require('nestjs-distributed-cron' + path);`,
  };
  const second = first === 'import' ? 'require' : 'import';
  const script = `
    import { createRequire } from 'node:module';
    const require = createRequire(process.cwd() + '/x.js');
    const paths = ${JSON.stringify(SUB_PATHS)}, imported = {}, required = {};
    ${load[first]} ${load[second]}
    const differ = [], names = {};
    for (const path of paths) {
      names[path] = Object.keys(required[path]).length;
      for (const name of new Set([...Object.keys(imported[path]), ...Object.keys(required[path])]))
        if (imported[path][name] !== required[path][name]) differ.push(path + ' ' + name);
    }
    console.log(JSON.stringify({ differ: differ.filter((one) => !/ (default|module.exports|__esModule)$/.test(one)), names }));`;
  const env = { ...process.env, NODE_OPTIONS: undefined };
  const { stdout } = await run(process.execPath, ['--no-warnings', '--input-type=module', '--eval', script], {
    cwd: PROJECT,
    env,
  });
  return JSON.parse(stdout);
}

describe('a process that loads the package as an ES module and as CommonJS', () => {
  it.each(['import', 'require'] as const)('has one set of classes and tokens, %s first', async (first) => {
    const { differ, names } = (await differences(first)) as { differ: string[]; names: Record<string, number> };
    expect(differ).toEqual([]);
    for (const path of SUB_PATHS) expect(names[path]).toBeGreaterThan(0);
  });
});
