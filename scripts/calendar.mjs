import { execFileSync, spawn } from 'node:child_process';
import { chmodSync, existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';

/** Runs tests on days on which programs go wrong: `npm run test:calendar -- [--at leap-day] [what Jest takes]`. */
const INSTANTS = {
  'month-end': { at: '2027-04-30T23:59:00Z' },
  'month-start': { at: '2027-05-01T00:00:05Z' },
  'year-end': { at: '2027-12-31T23:59:00Z' },
  // And the last hour of a month, from the first test to the last.
  'leap-day': { at: '2028-02-29T23:01:00Z' },
  'clocks-forward': { at: '2027-03-14T06:59:00Z', zone: 'America/New_York' },
  'clocks-back': { at: '2027-11-07T05:59:00Z', zone: 'America/New_York' },
};

/**
 * In libfaketime's own epoll_wait the clock reads true, also for a signal's handler that interrupts it: PostgreSQL's,
 * which looks there whether a time-out has come, would find none for years.
 */
const WAITS_FAKED = `
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>
int epoll_wait(int epoll, struct epoll_event *events, int most, int timeout) {
  return syscall(SYS_epoll_pwait, epoll, events, most, timeout, 0, 8);
}`;

const { values, tokens } = parseArgs({
  options: { at: { type: 'string', multiple: true } },
  strict: false,
  allowPositionals: true,
  tokens: true,
});
const unknown = (values.at ?? []).filter((name) => !(name in INSTANTS));
if (unknown.length > 0) fail(`There is no ${unknown.join(', ')}: --at is one of ${Object.keys(INSTANTS).join(', ')}.`);
const library = libraryPath();
if (!library) fail('libfaketime is not installed: apt-get install libfaketime');
const forJest = process.argv
  .slice(2)
  .filter(
    (_, index) =>
      !tokens.some(
        (token) => token.name === 'at' && (token.index === index || (!token.inlineValue && token.index + 1 === index)),
      ),
  );

const failed = [];
for (const name of values.at ?? Object.keys(INSTANTS)) {
  const { at, zone = 'UTC' } = INSTANTS[name];
  console.log(`\n${name}: ${at}, TZ=${zone}`);
  if ((await runJest(at, zone)) !== 0) failed.push(name);
}
console.log(failed.length > 0 ? `\nFailed: ${failed.join(', ')}` : '\nAll passed.');
process.exit(failed.length > 0 ? 1 : 0);

/** The clock goes on from that instant, in Jest, its server and all they start. */
async function runJest(at, zone) {
  const folder = mkdtempSync(join(tmpdir(), 'calendar-'));
  try {
    const clock = { ...clockFrom(Date.parse(at), folder), TZ: zone };
    const args = ['--experimental-vm-modules', '--no-warnings', 'node_modules/jest/bin/jest.js', ...forJest];
    const jest = spawn(process.execPath, args, { stdio: 'inherit', env: { ...process.env, ...clock } });
    return await new Promise((resolve) => jest.once('exit', resolve));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function clockFrom(instant, folder) {
  // Not FAKETIME: each process would take that for the instant of its own start, and FakedClock could not override it.
  const offset = join(folder, 'offset');
  writeFileSync(offset, `${instant < Date.now() ? '' : '+'}${Math.round((instant - Date.now()) / 1_000)}\n`);
  const waits = join(folder, 'waits.so');
  execFileSync('cc', ['-shared', '-fPIC', '-o', waits, '-x', 'c', '-'], { input: WAITS_FAKED });
  // As root, the server runs as another user.
  for (const path of [folder, waits]) chmodSync(path, 0o755);
  chmodSync(offset, 0o644);
  return {
    LD_PRELOAD: `${waits}:${library}`,
    FAKETIME_TIMESTAMP_FILE: offset,
    FAKETIME_DONT_FAKE_MONOTONIC: '1',
    NO_FAKE_STAT: '1',
  };
}

function libraryPath() {
  const multiarch = existsSync('/usr/lib')
    ? readdirSync('/usr/lib').map((folder) => `/usr/lib/${folder}/faketime`)
    : [];
  return [...multiarch, '/usr/lib/faketime', '/usr/local/lib/faketime']
    .map((folder) => join(folder, 'libfaketime.so.1'))
    .find(existsSync);
}

function fail(text) {
  console.error(text);
  process.exit(1);
}
