import {
  chmodSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from '@jest/globals';
import { startEmbeddedServer, type EmbeddedServer } from '../../../lib/database/embedded-server.js';

const MISSING = 'libfaketime is not installed: apt-get install libfaketime';
const SHARED_MEMORY = '/dev/shm';

/** Where Debian's package and its own Makefile put it. */
function libraryPath(): string | undefined {
  const multiarch = existsSync('/usr/lib')
    ? readdirSync('/usr/lib').map((folder) => `/usr/lib/${folder}/faketime`)
    : [];
  return [...multiarch, '/usr/lib/faketime', '/usr/local/lib/faketime']
    .map((folder) => join(folder, 'libfaketime.so.1'))
    .find(existsSync);
}

/** Tests with really wrong clocks: skipped, saying so, where the library is missing; in CI that fails. */
export function describeWithFakedClocks(name: string, tests: () => void): void {
  if (libraryPath()) return describe(name, tests);
  if (process.env.CI) return describe(name, () => it('has what it needs', () => Promise.reject(new Error(MISSING))));
  // Jest names nothing of a file that skips all, and swallows its console.
  process.stderr.write(`Skipped: ${name}. ${MISSING}\n`);
  describe.skip(`${name} (${MISSING})`, tests);
}

/** A wall clock that the test sets while a process runs. The monotonic clock of the process is its machine's. */
export class FakedClock {
  private readonly folder = mkdtempSync(join(tmpdir(), 'faked-clock-'));
  private readonly file = join(this.folder, 'offset');

  constructor(offsetMs = 0) {
    // A database server runs as another user when the tests run as root.
    chmodSync(this.folder, 0o755);
    this.set(offsetMs);
  }

  /** What a process needs in its environment to have this clock. */
  get env(): Record<string, string> {
    return {
      LD_PRELOAD: libraryPath()!,
      FAKETIME_TIMESTAMP_FILE: this.file,
      FAKETIME_NO_CACHE: '1',
      FAKETIME_DONT_FAKE_MONOTONIC: '1',
      NO_FAKE_STAT: '1',
    };
  }

  /**
   * Steps it, in whole seconds, to so much before or after the time of the tests, which is faked itself under
   * scripts/calendar.mjs.
   */
  set(offsetMs: number): void {
    const { FAKETIME_TIMESTAMP_FILE: ofTests } = process.env;
    const seconds = Math.round(offsetMs / 1_000) + (ofTests ? Number(readFileSync(ofTests, 'utf8')) : 0);
    // Renamed in its place: nobody reads half of it.
    writeFileSync(`${this.file}.next`, `${seconds < 0 ? '' : '+'}${seconds}\n`, { mode: 0o644 });
    renameSync(`${this.file}.next`, this.file);
  }

  /** A PostgreSQL server with this clock. */
  async startServer(): Promise<EmbeddedServer> {
    // It gets the environment of the process that starts it.
    const before = Object.keys(this.env).map((name) => [name, process.env[name]] as const);
    Object.assign(process.env, this.env);
    try {
      return await startEmbeddedServer({ postgresFlags: ['-c', 'max_connections=50'] });
    } finally {
      for (const [name, value] of before) {
        if (value === undefined) delete process.env[name];
        else process.env[name] = value;
      }
    }
  }

  /** Once no process has it any more. */
  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
    removeLeftovers();
  }
}

/**
 * A process that is killed leaves its part of the library's shared memory, which would trouble a later one with the
 * same id.
 */
function removeLeftovers(): void {
  const left = existsSync(SHARED_MEMORY) ? readdirSync(SHARED_MEMORY) : [];
  for (const name of left) {
    const pid = /^(?:sem\.)?faketime_(?:sem|shm)_(\d+)$/.exec(name)?.[1];
    if (pid && !existsSync(`/proc/${pid}`)) rmSync(join(SHARED_MEMORY, name), { force: true });
  }
}
