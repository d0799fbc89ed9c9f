import { spawn, type ChildProcess } from 'node:child_process';
import { chownSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { once } from 'node:events';
import { connect, createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, it } from '@jest/globals';
import { serverAccount } from '../../lib/database/embedded-process.js';

const MISSING = 'pgbouncer is not installed: apt-get install pgbouncer';

function program(): string | undefined {
  const folders = [...(process.env['PATH'] ?? '').split(delimiter), '/usr/sbin', '/usr/local/sbin'];
  return folders.map((folder) => join(folder, 'pgbouncer')).find(existsSync);
}

/** Tests behind a real pooler: skipped, saying so, where there is none; in CI that fails. */
export function describeWithPgBouncer(name: string, tests: () => void): void {
  if (program()) return describe(name, tests);
  if (process.env['CI']) return describe(name, () => it('has what it needs', () => Promise.reject(new Error(MISSING))));
  process.stderr.write(`Skipped: ${name}. ${MISSING}\n`);
  describe.skip(`${name} (${MISSING})`, tests);
}

/** PgBouncer in transaction mode, in front of one database. */
export class PgBouncer {
  private constructor(
    private readonly process: ChildProcess,
    private readonly folder: string,
    readonly url: string,
  ) {}

  static async to(target: string): Promise<PgBouncer> {
    const { hostname, port, username, password, pathname } = new URL(target);
    const name = pathname.slice(1);
    const folder = mkdtempSync(join(tmpdir(), 'pgbouncer-'));
    const ownPort = await freePort();
    const file = join(folder, 'pgbouncer.ini');
    const login = `user=${username} password=${decodeURIComponent(password)}`;
    writeFileSync(
      file,
      `[databases]\n${name} = host=${hostname} port=${port} dbname=${name} ${login}\n` +
        `[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = ${ownPort}\nunix_socket_dir =\nauth_type = any\npool_mode = transaction\n` +
        `default_pool_size = 3\nignore_startup_parameters = extra_float_digits\n`,
    );
    const account = serverAccount();
    if (account) for (const path of [folder, file]) chownSync(path, account.uid, account.gid);
    const child = spawn(program()!, ['-q', file], {
      stdio: ['ignore', 'ignore', 'inherit'],
      ...(account && { uid: account.uid, gid: account.gid }),
    });
    await Promise.race([
      answers(ownPort),
      once(child, 'exit').then(() => Promise.reject(new Error('PgBouncer ended.'))),
    ]);
    return new PgBouncer(child, folder, `postgres://${username}@127.0.0.1:${ownPort}/${name}`);
  }

  async end(): Promise<void> {
    const ended = once(this.process, 'exit');
    this.process.kill('SIGKILL');
    await ended;
    rmSync(this.folder, { recursive: true, force: true });
  }
}

async function answers(port: number): Promise<void> {
  for (;;) {
    const socket = connect(port, '127.0.0.1');
    const connected = await Promise.race([
      once(socket, 'connect').then(() => true),
      once(socket, 'error').then(() => false),
    ]).catch(() => false);
    socket.destroy();
    if (connected) return;
    await sleep(50);
  }
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address() as AddressInfo;
  await new Promise((resolve) => probe.close(resolve));
  return port;
}
