import { describe, expect, it, jest } from '@jest/globals';
import { Socket } from 'node:net';
import type { PostgresConnection } from '../../lib/options/scheduler-options.js';
import { connectionSettings, OWN_TYPES } from '../../lib/database/query.js';
import { openStores } from '../support/stores.js';

const settings = (connection: PostgresConnection) => connectionSettings(connection, 'test');

describe('the settings of a connection outside the pools', () => {
  it.each<[string, (password: () => string) => PostgresConnection]>([
    ['the connection', (password) => ({ password })],
    ['its replication’s master', (password) => ({ replication: { master: { password }, slaves: [] } })],
  ])('have the password function of %s', async (_where, connection) => {
    const { config, password } = settings(connection(() => 'made anew'));
    expect(config).not.toHaveProperty('password');
    expect(await password?.()).toBe('made anew');
  });

  it('have the master’s password where there is one, not the connection’s', () => {
    const { config, password } = settings({
      password: () => 'not this',
      replication: { master: { password: 'the master’s' }, slaves: [] },
    });
    expect(config).toMatchObject({ password: 'the master’s' });
    expect(password).toBeNull();
  });

  it('name the functions that are left out', () => {
    const extra = { stream: () => null, options: '-c work_mem=1MB' };
    // tls knows it; TypeORM's type does not.
    const ssl = { ca: 'pem', checkServerIdentity: () => undefined };
    const { config, functions } = settings({ ssl, extra });
    expect(functions).toEqual(['ssl.checkServerIdentity', 'extra.stream']);
    expect(config).toMatchObject({ ssl: { ca: 'pem' }, options: '-c work_mem=1MB' });
    expect(structuredClone(config)).toEqual(config);
  });

  it('have the client’s key, which pg’s pool hides', () => {
    const ssl = { cert: 'pem', key: 'secret', pfx: Buffer.from([0xff, 0x00]) };
    Object.defineProperty(ssl, 'key', { enumerable: false });
    expect(settings({ ssl }).config).toMatchObject({ ssl: { key: 'secret', pfx: new Uint8Array([0xff, 0x00]) } });
  });

  it('keep an idle connection in use: a firewall that drops it without a word is noticed before something is asked on it', async () => {
    expect(settings({}).config).toMatchObject({ keepAlive: true, keepAliveInitialDelayMillis: 10_000 });
    const keptAlive = jest.spyOn(Socket.prototype, 'setKeepAlive');
    const stores = await openStores();
    expect(keptAlive).toHaveBeenCalledWith(true, 10_000);
    keptAlive.mockRestore();
    await stores.close();
  });

  it('take from `extra` what it says over the rest, as TypeORM does', () => {
    expect(settings({ host: 'a', extra: { host: 'b' } }).config).toMatchObject({ host: 'b' });
  });
});

describe('this library’s own type parsers', () => {
  const instant = (text: string) => (OWN_TYPES.getTypeParser(1184)(text) as Date).toISOString();

  it.each([
    ['2026-01-31 09:00:00+00', '2026-01-31T09:00:00.000Z'],
    ['2026-01-31 09:00:00.123456+05:30', '2026-01-31T03:30:00.123Z'],
    ['2026-01-31 09:00:00.5-08', '2026-01-31T17:00:00.500Z'],
  ])('read the instant %s', (text, iso) => {
    expect(instant(text)).toBe(iso);
  });

  it.each<[number, string, unknown]>([
    [16, 't', true],
    [16, 'f', false],
    [20, '9007199254740993', '9007199254740993'],
    [23, '-5', -5],
    [25, '5', '5'],
    [3802, '{"a": [1]}', { a: [1] }],
    [1009, '{a,b}', ['a', 'b']],
  ])('read type %i as pg does', (oid, text, value) => {
    expect(OWN_TYPES.getTypeParser(oid)(text)).toEqual(value);
  });
});
