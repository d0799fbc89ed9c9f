import { execFile } from 'node:child_process';
import { chown, mkdir, mkdtemp, readFile, realpath, rm } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import {
  locateBinaries,
  serverAccount,
  runToEnd,
  startServer,
  type RunningServer,
} from '../../lib/database/embedded-process.js';

/** A PostgreSQL server whose data outlive it: it stops and starts again on the same port. */
export class RestartableServer {
  private running: RunningServer | null = null;

  private constructor(
    private readonly folder: string,
    readonly port: number,
  ) {}

  /** Made, and not started yet. */
  static async create(): Promise<RestartableServer> {
    const folder = await mkdtemp(join(await realpath(tmpdir()), 'nestjs-distributed-cron-restarts-'));
    const account = serverAccount();
    if (account) await chown(folder, account.uid, account.gid);
    const { initdb } = await locateBinaries();
    await runToEnd(
      initdb,
      [
        `--pgdata=${join(folder, 'data')}`,
        '--username=postgres',
        '--auth=trust',
        '--encoding=UTF8',
        '--locale=C',
        '--no-sync',
      ],
      { folder, account },
    );
    return new RestartableServer(folder, await freePort());
  }

  get url(): string {
    return `postgres://postgres@127.0.0.1:${this.port}/postgres`;
  }

  /** @param settings for this time: `max_connections=10` */
  async start(...settings: string[]): Promise<void> {
    const account = serverAccount();
    // The server's keeper removes its own folder when it ends, not the data.
    const folder = join(this.folder, 'run');
    await mkdir(folder, { recursive: true });
    if (account) await chown(folder, account.uid, account.gid);
    const all = ['listen_addresses=127.0.0.1', 'unix_socket_directories=', 'fsync=off', ...settings];
    const args = [
      '-D',
      join(this.folder, 'data'),
      '-p',
      String(this.port),
      ...all.flatMap((setting) => ['-c', setting]),
    ];
    this.running = await startServer((await locateBinaries()).postgres, args, { folder, account });
  }

  async stop(): Promise<void> {
    await this.running?.stop();
    this.running = null;
  }

  /**
   * From now on the server writes its log only for who waits for that: what is committed otherwise is gone with a
   * crash.
   */
  async holdLogBack(): Promise<void> {
    for (const { pid, what } of await this.children())
      if (/walwriter|background writer|checkpointer/.test(what)) process.kill(pid, 'SIGSTOP');
  }

  /** The server is gone from one moment to the next, with all of its processes. */
  async crash(): Promise<void> {
    const children = await this.children();
    process.kill(await this.pid(), 'SIGKILL');
    for (const { pid } of children) kill(pid);
    await this.stop();
  }

  private async pid(): Promise<number> {
    return Number((await readFile(join(this.folder, 'data', 'postmaster.pid'), 'utf8')).split('\n')[0]);
  }

  private async children(): Promise<{ pid: number; what: string }[]> {
    const { stdout } = await promisify(execFile)('ps', ['-o', 'pid=,args=', '--ppid', String(await this.pid())]);
    return stdout
      .trim()
      .split('\n')
      .map((line) => ({ pid: parseInt(line, 10), what: line }));
  }

  async remove(): Promise<void> {
    await this.stop();
    await rm(this.folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It has ended by itself.
  }
}

async function freePort(): Promise<number> {
  const probe = createServer();
  await new Promise<void>((resolve) => probe.listen(0, '127.0.0.1', resolve));
  const { port } = probe.address() as AddressInfo;
  await new Promise((resolve) => probe.close(resolve));
  return port;
}
