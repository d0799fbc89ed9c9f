import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** Compiles an application against the packed types, by several versions of TypeScript, and lints the package's entries. */
const PROJECT = fileURLToPath(new URL('..', import.meta.url));
const VERSIONS = ['5.4', '5.6', '5.8', '6.0'];
const NODE_ES = { module: 'nodenext', moduleResolution: 'nodenext', verbatimModuleSyntax: true };
const FORMS = {
  commonjs: { type: 'commonjs', options: { module: 'commonjs', moduleResolution: 'node' } },
  node16: { type: 'commonjs', options: { module: 'node16', moduleResolution: 'node16' } },
  nodenext: { type: 'module', options: NODE_ES },
  bundler: { type: 'module', options: { module: 'esnext', moduleResolution: 'bundler', verbatimModuleSyntax: true } },
};
const APPLICATION = `
import { DistributedCron, DistributedSchedulerModule } from 'nestjs-distributed-cron';
import * as migrations from 'nestjs-distributed-cron/migrations';
import * as testing from 'nestjs-distributed-cron/testing';
import * as trigger from 'nestjs-distributed-cron/trigger';

export class Jobs {
  @DistributedCron('0 3 * * *', { name: 'nightly' })
  protected async nightly(): Promise<void> {}
}
export const module = DistributedSchedulerModule.forRoot({ migrate: true });
export const all = [migrations, testing, trigger];
// @ts-expect-error a schedule is a text
DistributedCron(5, { name: 'no' });
`;

const folder = mkdtempSync(join(tmpdir(), 'compat-types-'));
const run = (command, args, cwd = folder) => execFileSync(command, args, { cwd, encoding: 'utf8', stdio: 'pipe' });
const write = (path, content) => {
  mkdirSync(dirname(join(folder, path)), { recursive: true });
  writeFileSync(join(folder, path), typeof content === 'string' ? content : JSON.stringify(content));
};
let failures = 0;
function attempt(name, work) {
  try {
    work();
    console.log(`ok      ${name}`);
  } catch (error) {
    failures += 1;
    console.log(`FAILED  ${name}\n${error.stdout ?? ''}${error.stderr ?? error}`);
  }
}

try {
  const packed = run('npm', ['pack', '--ignore-scripts', '--json', '--pack-destination', folder], PROJECT);
  const tarball = `./${JSON.parse(packed)[0].filename}`;
  const nest = Object.fromEntries(['common', 'core'].map((name) => [`@nestjs/${name}`, '11']));
  const typescript = Object.fromEntries(VERSIONS.map((one) => [`ts${one}`, `npm:typescript@~${one}.0`]));
  const others = { pg: '8', 'reflect-metadata': '0.2', rxjs: '7', typeorm: '0.3', '@types/node': '20' };
  const linters = { publint: '0.3', '@arethetypeswrong/cli': '0.18' };
  const dependencies = { 'nestjs-distributed-cron': `file:${tarball}`, ...nest, ...others, ...linters, ...typescript };
  write('package.json', { name: 'compat-types', private: true, dependencies });
  run('npm', ['install', '--prefer-offline', '--no-audit', '--no-fund', '--loglevel=error']);
  attempt('publint', () => run('npx', ['publint', '--strict', tarball]));
  attempt('@arethetypeswrong/cli', () => run('npx', ['attw', tarball]));
  for (const [form, { type, options }] of Object.entries(FORMS)) {
    write(`${form}/package.json`, { type });
    write(`${form}/jobs.ts`, APPLICATION);
    for (const version of VERSIONS) {
      const compilerOptions = {
        ...{ target: 'es2022', strict: true, exactOptionalPropertyTypes: true, noUnusedLocals: true, noEmit: true },
        ...{ experimentalDecorators: true, emitDecoratorMetadata: true, skipLibCheck: true, types: ['node'] },
        ...options,
        ...(form === 'commonjs' && version.startsWith('6') ? { ignoreDeprecations: '6.0' } : {}),
      };
      write(`${form}/tsconfig.json`, { compilerOptions, include: ['*.ts'] });
      const tsc = join(folder, `node_modules/ts${version}/bin/tsc`);
      attempt(`TypeScript ${version}, ${form}`, () => run(process.execPath, [tsc, '-p', `${form}/tsconfig.json`]));
    }
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
process.exitCode = failures > 0 ? 1 : 0;
