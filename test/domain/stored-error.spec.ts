import { describe, expect, it } from '@jest/globals';
import { describeError } from '../../lib/errors/stored-error.js';
import { storableJson } from '../../lib/errors/stored-error.js';

const cyclic: Record<string, unknown> = {};
cyclic['self'] = cyclic;
const hostile = new Proxy(
  {},
  {
    get: () => {
      throw new Error('no');
    },
    ownKeys: () => {
      throw new Error('no');
    },
  },
);

const { proxy: revoked, revoke } = Proxy.revocable({}, {});
revoke();
const trapped = new Proxy(
  {},
  {
    getPrototypeOf: () => {
      throw new Error('no');
    },
  },
);

describe('whatever is thrown can be stored', () => {
  it.each<[string, unknown, { name: string; message: string }]>([
    ['an error', new TypeError('bad'), { name: 'TypeError', message: 'bad' }],
    ['a text', 'text', { name: 'string', message: 'text' }],
    ['null', null, { name: 'object', message: 'null' }],
    ['undefined', undefined, { name: 'undefined', message: 'undefined' }],
    ['a number', 7, { name: 'number', message: '7' }],
    ['an object', { code: 1 }, { name: 'object', message: '{"code":1}' }],
    ['a frozen error', Object.freeze(new Error('frozen')), { name: 'Error', message: 'frozen' }],
    ['a cycle', cyclic, { name: 'object', message: 'a value that cannot be printed (object)' }],
    ['a symbol', Symbol('s'), { name: 'symbol', message: 'Symbol(s)' }],
    ['what throws at every touch', hostile, { name: 'object', message: 'a value that cannot be printed (object)' }],
    ['a revoked proxy', revoked, { name: 'object', message: 'a value that cannot be printed (object)' }],
    ['what throws at instanceof', trapped, { name: 'object', message: '{}' }],
    ['an error without a message', new Error(), { name: 'Error', message: '{}' }],
  ])('%s', (_name, thrown, stored) => {
    expect(describeError(thrown)).toMatchObject(stored);
  });

  it('with what caused it, and that, but no endless circle', () => {
    const driver = Object.assign(new Error('connection reset'), { stack: 'Error: connection reset\n at socket' });
    const { stack } = describeError(
      Object.assign(new Error('save failed', { cause: driver }), { stack: 'Error: save failed\n at save' }),
    );
    expect(stack).toBe('Error: save failed\n at save\nCaused by: Error: connection reset\n at socket');
    const circle: Error & { cause?: unknown } = new Error('round');
    circle.cause = circle;
    expect(describeError(circle).stack!.match(/Caused by/g)).toHaveLength(5);
  });

  it('without what PostgreSQL refuses, and shortened', () => {
    const { message } = describeError(new Error(`a\u0000b\ud800${'x'.repeat(1_000_000)}`));
    expect(message.startsWith('ab\ufffdxxx')).toBe(true);
    expect(message.length).toBeLessThan(4_100);
    expect(message).toMatch(/… \(\d+ more characters\)$/);
  });
});

describe('a receipt keeps', () => {
  it.each<[string, unknown, string | null]>([
    ['an object', { id: 7 }, '{"id":7}'],
    ['null', null, 'null'],
    ['nothing of undefined', undefined, null],
    ['nothing of a function', () => 1, null],
    ['nothing of a cycle', cyclic, null],
    ['nothing of a bigint', 1n, null],
    ['nothing with NUL', 'a\u0000', null],
    ['nothing with half a surrogate pair', '\ud800', null],
    ['nothing with the other half', '😀'.slice(1), null],
    ['a whole pair', '😀', '"😀"'],
    ['nothing too long', 'x'.repeat(70_000), null],
  ])('%s', (_name, value, json) => {
    expect(storableJson(value)).toBe(json);
  });
});
