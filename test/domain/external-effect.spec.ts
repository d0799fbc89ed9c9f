import { describe, expect, it } from '@jest/globals';
import { neverConnected } from '../../lib/receipts/receipt-options.js';

describe('an error that says that no connection was made', () => {
  const coded = (code: string) => Object.assign(new Error(code), { code });

  it.each<[string, unknown, boolean]>([
    ['a refused connection', coded('ECONNREFUSED'), true],
    ['a name that nobody knows', coded('ENOTFOUND'), true],
    ['what fetch throws about it', new TypeError('fetch failed', { cause: coded('ECONNREFUSED') }), true],
    [
      'what fetch throws when several addresses refuse',
      new TypeError('fetch failed', {
        cause: Object.assign(new AggregateError([coded('ECONNREFUSED')]), { code: 'ECONNREFUSED' }),
      }),
      true,
    ],
    ['a connection that was cut', coded('ECONNRESET'), false],
    ['a timeout', coded('ETIMEDOUT'), false],
    ['an answer', new Error('500'), false],
    ['a text', 'ECONNREFUSED', false],
    ['nothing', undefined, false],
    [
      'what throws when it is asked',
      new Proxy(
        {},
        {
          get: () => {
            throw new Error('no');
          },
        },
      ),
      false,
    ],
  ])('%s', (_what, error, expected) => {
    expect(neverConnected(error)).toBe(expected);
  });

  it('goes round in no circle', () => {
    const error: Error & { cause?: unknown } = new Error('round');
    error.cause = error;
    expect(neverConnected(error)).toBe(false);
  });

  it('is what fetch really throws when nobody listens', async () => {
    const { createServer } = await import('node:net');
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as { port: number };
    await new Promise((resolve) => server.close(resolve));
    const thrown = await fetch(`http://127.0.0.1:${port}`).catch((error: unknown) => error);
    expect(neverConnected(thrown)).toBe(true);
  });
});
