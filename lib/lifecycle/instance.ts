import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { dirname, join, sep } from 'node:path';

/**
 * A name for this process that no other start of a process ever has: three containers may share a host name, and a
 * restarted one may get the old process id again.
 */
export function createInstanceId(): string {
  return `${hostname().slice(0, 64)}-${process.pid}-${randomBytes(4).toString('hex')}`;
}

/**
 * The application's package.json: the nearest one above the working directory, or else above the main script. Null where
 * there is none, or none with a name.
 */
export function rootPackage(): { readonly name: string; readonly version: string | null } | null {
  const script = process.argv[1];
  const places = [
    currentDirectory(),
    ...(script && !script.includes(`${sep}node_modules${sep}`) ? [dirname(script)] : []),
  ];
  for (const place of places) {
    const found = place === null ? null : packageAbove(place);
    if (found !== null) return found;
  }
  return null;
}

function packageAbove(folder: string): ReturnType<typeof rootPackage> {
  for (let at = folder; ; at = dirname(at)) {
    try {
      const { name, version } = JSON.parse(readFileSync(join(at, 'package.json'), 'utf8')) as Record<string, unknown>;
      if (typeof name !== 'string' || name.trim() === '') return null;
      return {
        name: name.trim().slice(0, 200),
        version: typeof version === 'string' && version !== '' ? version.slice(0, 100) : null,
      };
    } catch {
      if (dirname(at) === at) return null;
    }
  }
}

/** A directory that was removed has no path. */
function currentDirectory(): string | null {
  try {
    return process.cwd();
  } catch {
    return null;
  }
}
