import { describe, expect, it } from '@jest/globals';
import { AlertDelivery } from '../../lib/observe/alert-delivery.js';
import type { Alert, AlertSink } from '../../lib/options/alert-options.js';

const anAlert = (key: string) => ({ key }) as Alert;

function delivery(sink: AlertSink['alert'], { timeoutMs = 60_000, atMost = 100 } = {}) {
  const troubles: string[] = [];
  const delivery = new AlertDelivery({ alert: sink }, { timeoutMs, atMost, trouble: (text) => troubles.push(text) });
  return { delivery, troubles };
}

describe('a sink', () => {
  it('gets alerts one at a time and in order, however slow it is', async () => {
    const got: string[] = [];
    let inHand = 0;
    const { delivery: slow } = delivery(async ({ key }) => {
      inHand += 1;
      await new Promise((resolve) => setTimeout(resolve, 5));
      got.push(`${key}${inHand}`);
      inHand -= 1;
    });
    for (const key of ['a', 'b', 'c']) slow.add(anAlert(key));
    await slow.drained();
    expect(got).toEqual(['a1', 'b1', 'c1']);
  });

  it.each<[string, AlertSink['alert'], RegExp]>([
    [
      'throws',
      () => {
        throw new Error('pager is gone');
      },
      /pager is gone/,
    ],
    [
      'throws nothing in particular',
      () => {
        throw undefined;
      },
      /until it works again/,
    ],
    ['rejects', async () => Promise.reject(new Error('pager is gone')), /pager is gone/],
    ['hangs', () => new Promise<void>(() => {}), /longer than 20 ms/],
  ])('that %s costs its alerts, and is told of once until it works again', async (_what, alert, said) => {
    let broken = true;
    const got: string[] = [];
    const { delivery: sick, troubles } = delivery((one) => (broken ? alert(one) : void got.push(one.key)), {
      timeoutMs: 20,
    });
    for (const key of ['a', 'b', 'c']) sick.add(anAlert(key));
    await sick.drained();
    expect(troubles).toEqual([expect.stringMatching(said)]);
    broken = false;
    sick.add(anAlert('d'));
    await sick.drained();
    expect(got).toEqual(['d']);
    broken = true;
    sick.add(anAlert('e'));
    await sick.drained();
    expect(troubles).toHaveLength(2);
  });

  it('that is too slow for a flood loses what does not fit, not the memory', async () => {
    let open = () => {};
    const opened = new Promise<void>((resolve) => (open = resolve));
    const got: string[] = [];
    const { delivery: slow, troubles } = delivery(
      async ({ key }) => {
        await opened;
        got.push(key);
      },
      { atMost: 2 },
    );
    for (const key of ['in hand', 'b', 'c', 'd', 'e']) slow.add(anAlert(key));
    open();
    await slow.drained();
    expect(got).toEqual(['in hand', 'b', 'c']);
    expect(troubles).toEqual([expect.stringMatching(/2 alerts wait for it already/)]);
  });

  it('is left alone with what waits when it is given up', async () => {
    const got: string[] = [];
    const { delivery: hanging } = delivery(
      ({ key }) => {
        got.push(key);
        return new Promise<void>(() => {});
      },
      { timeoutMs: 20 },
    );
    hanging.add(anAlert('a'));
    hanging.add(anAlert('b'));
    hanging.abandon();
    await hanging.drained();
    expect(got).toEqual(['a']);
  });
});
