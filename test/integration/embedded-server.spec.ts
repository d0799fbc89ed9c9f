import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, it } from '@jest/globals';
import pg from 'pg';
import { checkAccess, findClosedFolder } from '../../lib/database/embedded-process.js';
import { explainFailure, isPortTaken } from '../../lib/database/embedded-server.js';
import {
  isEmbeddedPostgresInstalled,
  startEmbeddedServer,
  type EmbeddedServer,
} from '../../lib/database/embedded-server.js';

const servers: EmbeddedServer[] = [];

async function start(options?: Parameters<typeof startEmbeddedServer>[0]): Promise<EmbeddedServer> {
  const server = await startEmbeddedServer(options);
  servers.push(server);
  return server;
}

afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => server.stop()));
});

describe('an embedded server', () => {
  it('answers on 127.0.0.1, with the named database', async () => {
    const server = await start({ databaseName: 'orders "2026"', postgresFlags: ['-c', 'max_connections=33'] });
    const client = new pg.Client({ connectionString: server.url });
    client.on('error', () => undefined);
    await client.connect();
    const { rows } = await client.query(
      `select current_database() as name, current_setting('max_connections') as connections, current_setting('listen_addresses') as addresses`,
    );
    expect(rows).toEqual([{ name: 'orders "2026"', connections: '33', addresses: '127.0.0.1' }]);
    await client.end();
  });

  it('refuses a wrong password', async () => {
    const { port } = await start();
    const client = new pg.Client({
      host: '127.0.0.1',
      port,
      user: 'postgres',
      password: 'guess',
      database: 'postgres',
    });
    await expect(client.connect()).rejects.toThrow(/password authentication failed/);
    await client.end().catch(() => undefined);
  });

  it('leaves neither a process nor a folder when it is stopped, also with a client connected, also twice', async () => {
    const server = await start();
    const client = new pg.Client({ connectionString: server.url });
    client.on('error', () => undefined);
    await client.connect();
    const pid = postmasterOf(server.dataDirectory);
    await Promise.all([server.stop(), server.stop()]);
    await server.stop();
    expect([isAlive(pid), existsSync(join(server.dataDirectory, '..'))]).toEqual([false, false]);
  });

  it('can be stopped after its process was killed by someone else', async () => {
    const server = await start();
    process.kill(postmasterOf(server.dataDirectory), 'SIGKILL');
    await server.stop();
    expect(existsSync(join(server.dataDirectory, '..'))).toBe(false);
  });

  it('leaves nothing behind when it fails half-way, and says what the server said', async () => {
    const parent = mkdtempSync(join(realpathSync(tmpdir()), 'half-way-'));
    chmodSync(parent, 0o777);
    const original = process.env.TMPDIR;
    process.env.TMPDIR = parent;
    try {
      await expect(start({ postgresFlags: ['-c', 'max_connections=none'] })).rejects.toThrow(
        /invalid value for parameter "max_connections"/,
      );
      await expect(start({ databaseName: 'template1' })).rejects.toThrow(/database "template1" already exists/);
      expect(readdirSync(parent)).toEqual([]);
    } finally {
      if (original === undefined) delete process.env.TMPDIR;
      else process.env.TMPDIR = original;
      rmSync(parent, { recursive: true });
    }
  });

  it('says so when no port could be had', async () => {
    const other = createServer().listen(0, '127.0.0.1');
    await once(other, 'listening');
    const { port } = other.address() as AddressInfo;
    const failure = await start({ postgresFlags: ['-p', String(port)] }).catch((error: unknown) => error);
    other.close();
    expect(failure).toMatchObject({ code: 'embedded-server' });
    expect((failure as Error).message).toMatch(/taken by another process.*Or set DATABASE_URL/s);
    expect(isPortTaken((failure as Error).cause)).toBe(true);
  });
});

describe('the process that started a server', () => {
  it.each([
    ['returns from its script without stopping it', '', 'none'],
    ['calls process.exit()', 'process.exit(0);', 'none'],
    ['throws', "setTimeout(() => { throw new Error('on purpose'); });", 'none'],
    ['gets SIGTERM', 'setInterval(() => {}, 1000);', 'SIGTERM'],
    ['gets SIGINT', 'setInterval(() => {}, 1000);', 'SIGINT'],
    ['gets SIGKILL', 'setInterval(() => {}, 1000);', 'SIGKILL'],
  ])('%s: the server and its folder are gone', async (_, afterStart, signal) => {
    const host = await hostProcess(afterStart);
    const pid = postmasterOf(host.dataDirectory);
    host.proceed();
    if (signal !== 'none') host.child.kill(signal as NodeJS.Signals);
    await host.exited;
    await until(() => !isAlive(pid) && !existsSync(join(host.dataDirectory, '..')));
  });

  it('can still use the server while it shuts down after Ctrl-C, and no handler of ours ends it', async () => {
    const host = await hostProcess(`
      process.on('SIGINT', async () => {
        await new Promise((resolve) => setTimeout(resolve, 300));
        const client = new pg.Client({ connectionString: server.url });
        await client.connect();
        console.log('answered ' + (await client.query('select 1 as one')).rows[0].one);
        await client.end();
        await server.stop();
        process.exit(7);
      });
      setInterval(() => {}, 1000);
      console.log('listening');
    `);
    host.proceed();
    await host.line('listening');
    // As a terminal does: to the whole process group.
    process.kill(-host.child.pid!, 'SIGINT');
    await host.line('answered 1');
    expect(await host.exited).toBe(7);
  });
});

describe('the access check for a server that may not run as root', () => {
  const account = { uid: 54_321, gid: 54_321 };
  let base: string;

  afterEach(() => rmSync(base, { recursive: true, force: true }));

  it('names the outermost folder that is closed', () => {
    base = mkdtempSync(join(realpathSync(tmpdir()), 'access-'));
    chmodSync(base, 0o755);
    const inner = join(base, 'node_modules', 'bin');
    mkdirSync(inner, { recursive: true });
    const program = join(inner, 'postgres');
    writeFileSync(program, '');
    chmodSync(program, 0o755);
    expect(findClosedFolder(program, account)).toBeNull();
    chmodSync(program, 0o700);
    expect(findClosedFolder(program, account)).toBe(program);
    chmodSync(base, 0o700);
    expect(findClosedFolder(program, account)).toBe(base);
    expect(() => checkAccess(account, { initdb: program, postgres: program }, tmpdir())).toThrow(
      `may not enter ${base}, which it must to reach ${program}. Open it (chmod o+x ${base}), move the project`,
    );
    expect(findClosedFolder(program, { uid: process.getuid!(), gid: 0 })).toBeNull();
  });
});

describe('a failure is explained', () => {
  it.each([
    ['initdb exited with code 1:\ncould not write to file: No space left on device', /no room left/],
    ["ENOENT: no such file or directory, realpath '/nowhere'", /temporary folder is not there/],
    [
      'FATAL:  could not extend file "base/1/2691": wrote only 4096 of 8192 bytes\nHINT:  Check free disk space.',
      /no room left/,
    ],
    ['error while loading shared libraries: libpq.so.5: cannot open shared object file: Permission denied', /rights/],
    ["ENOSPC: no space left on device, mkdtemp '/tmp/x'", /no room left/],
    ['initdb exited with code 127:\nerror while loading shared libraries: libicuuc.so.60', /npm rebuild/],
    ['initdb could not be run (spawn /x/initdb ENOENT)', /glibc/],
    ['initdb could not be run (spawn /x/initdb EACCES)', /rights/],
    ['FATAL:  could not map anonymous shared memory: Cannot allocate memory', /memory/],
    ['FATAL:  something nobody has seen', /did not start\. Set DATABASE_URL/],
  ])('%s', (text, advice) => {
    const error = explainFailure(new Error(text));
    expect(error).toMatchObject({ code: 'embedded-server' });
    expect(error.message).toMatch(advice);
    expect(error.message).toContain(text);
  });

  it('is installed here', () => {
    expect(isEmbeddedPostgresInstalled()).toBe(true);
  });
});

/** A Node.js process of its own that starts a server, tells us, waits for `proceed()`, and then runs `afterStart`. */
async function hostProcess(afterStart: string) {
  const module = new URL('../../dist/lib/database/embedded-server.js', import.meta.url).href;
  const script = `
    import pg from 'pg';
    import { startEmbeddedServer } from ${JSON.stringify(module)};
    const server = await startEmbeddedServer();
    console.log('data ' + server.dataDirectory);
    await new Promise((resolve) => process.stdin.once('data', resolve));
    process.stdin.destroy();
    ${afterStart}`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
    stdio: ['pipe', 'pipe', 'ignore'],
    detached: true,
  });
  const exited = once(child, 'exit').then(([code]) => code as number | null);
  const lines: string[] = [];
  createInterface({ input: child.stdout }).on('line', (line) => lines.push(line));
  const line = async (start: string): Promise<string> => {
    await until(() => lines.some((text) => text.startsWith(start)));
    return lines.find((text) => text.startsWith(start))!;
  };
  const dataDirectory = (await line('data ')).slice('data '.length);
  return { child, exited, line, dataDirectory, proceed: () => child.stdin.write('\n') };
}

function postmasterOf(dataDirectory: string): number {
  return Number(readFileSync(join(dataDirectory, 'postmaster.pid'), 'utf8').split('\n')[0]);
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch {
    return false;
  }
  // A process that ended and was not waited for by its parent yet is no process any more; it may go while it is looked
  // at.
  try {
    return !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    return process.platform !== 'linux';
  }
}

async function until(condition: () => boolean): Promise<void> {
  for (const end = Date.now() + 50_000; !condition(); await sleep(20)) {
    if (Date.now() > end) throw new Error(`still not so after 50 s: ${condition}`);
  }
}
