import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { InDoubtPolicy } from '../../lib/receipts/receipt-options.js';
import { NEVER_CONNECTED } from '../../lib/receipts/receipt-options.js';
import { openStores, type Stores } from '../support/stores.js';

const PAGE = readFileSync(new URL('../../docs/external-effects.md', import.meta.url), 'utf8');

let stores: Stores;
beforeAll(async () => {
  stores = await openStores();
});
afterAll(() => stores.close());

const stepOf = async (state: string, policy: InDoubtPolicy) =>
  (await stores.test.query<{ step: string }>('select receipt_call_step_1($1, true, $2) as step', [state, policy]))[0]!
    .step;

describe('docs/external-effects.md', () => {
  it('says what an attempt does about a receipt that is there', async () => {
    const block = PAGE.split(/\n\n/).find((text) => text.startsWith('| state |'))!;
    const [head, , ...rows] = block.split('\n').map((line) =>
      line
        .slice(1, -1)
        .split('|')
        .map((cell) => cell.trim().replaceAll('`', '')),
    );
    const policies = head!.slice(2) as InDoubtPolicy[];
    expect(policies).toEqual(['park', 'resend']);
    expect(rows.map(([state]) => state).sort()).toEqual(['done', 'in_doubt', 'open', 'undone']);
    for (const [state, , ...steps] of rows) {
      expect([state, steps]).toEqual([state, await Promise.all(policies.map((policy) => stepOf(state!, policy)))]);
    }
  });

  it('names the codes of connections that were never made', () => {
    const [, sentence] = PAGE.match(/`neverConnected` is asked: true for the codes ([^]*?), on the error/)!;
    expect([...sentence!.matchAll(/`(\w+)`/g)].map(([, code]) => code)).toEqual([...NEVER_CONNECTED]);
  });
});
