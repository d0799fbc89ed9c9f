import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const run = promisify(execFile);
const PROJECT = fileURLToPath(new URL('../../..', import.meta.url));

/** Runs npm, away from what Jest has set for this process. */
export function npm(args: readonly string[], cwd: string, timeout: number, env: Record<string, string> = {}) {
  const clean = { ...process.env, NODE_OPTIONS: undefined, NODE_ENV: undefined, ...env };
  return run('npm', ['--no-audit', '--no-fund', '--loglevel=error', ...args], { cwd, timeout, env: clean });
}

/** Without the registry there is nothing to install: skipped on a laptop, and an error on the build server. */
export function isRegistryReachable(): Promise<boolean> {
  return npm(['view', '@nestjs/core@11', 'name', '--fetch-retries=0'], PROJECT, 10_000).then(
    () => true,
    () => false,
  );
}

/** Packs what was built. @returns the tarball's name in the folder */
export async function packInto(folder: string): Promise<string> {
  const args = ['pack', '--ignore-scripts', '--json', '--pack-destination', folder];
  const { stdout } = await npm(args, PROJECT, 60_000);
  const [{ filename }] = JSON.parse(stdout) as [{ filename: string }];
  return filename;
}
