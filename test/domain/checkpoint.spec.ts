import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { checkpointJson, MOST_CHECKPOINT_BYTES } from '../../lib/runs/checkpoint.js';

const circular: Record<string, unknown> = { pages: [{}] };
(circular['pages'] as object[]).push({ back: circular });
const nested = (levels: number): unknown => (levels === 0 ? 1 : [nested(levels - 1)]);

describe('a checkpoint', () => {
  it.each<[string, unknown, string]>([
    ['null', null, 'null'],
    ['a text', 'a', '"a"'],
    ['nothing much', {}, '{}'],
    ['a property that is undefined is left out, as it reads the same', { page: 7, cursor: undefined }, '{"page":7}'],
    ['a date is text', { at: new Date(0) }, '{"at":"1970-01-01T00:00:00.000Z"}'],
    [
      'one object in two places is no circle',
      [circular['none'] ?? 1, ...Array<object>(2).fill({ a: 1 })],
      '[1,{"a":1},{"a":1}]',
    ],
    ['an object without a prototype', Object.assign(Object.create(null), { a: 1 }), '{"a":1}'],
  ])('of %s', (_what, value, json) => {
    expect(checkpointJson(value)).toBe(json);
  });

  it.each<[unknown, string]>([
    [undefined, 'value is undefined; to have no checkpoint, call clear()'],
    [{ pages: [1, undefined] }, 'value.pages[1] is undefined'],
    [{ next: 7n }, 'value.next is a bigint, which is no JSON'],
    [{ next: () => {} }, 'value.next is a function'],
    [Symbol('x'), 'value is a symbol'],
    [{ 'a b': { rate: NaN } }, 'value["a b"].rate is NaN, which JSON does not have'],
    [[-Infinity], 'value[0] is -Infinity'],
    [circular, 'value.pages[1].back is part of itself'],
    [{ seen: new Map([[1, 2]]) }, 'value.seen is an instance of Map'],
    [
      {
        of: new (class Customer {
          name = 'a';
        })(),
      },
      'value.of is an instance of Customer',
    ],
    [[Promise.resolve()], 'value[0] is an instance of Promise'],
    [{ at: new Date(NaN) }, 'value.at is an invalid date'],
    [{ name: 'a\u0000b' }, 'value.name is a text with a NUL or with half a character'],
    [{ name: '\ud800' }, 'value.name is a text with a NUL'],
    [{ 'a\u0000': 1 }, 'a name in value is a text with a NUL'],
    [nested(300), 'is more than 200 levels deep'],
  ])('that cannot be kept says where: %#', (value, problem) => {
    expect(() => checkpointJson(value)).toThrow(expect.objectContaining({ code: 'invalid-checkpoint' }));
    expect(() => checkpointJson(value)).toThrow(problem);
  });

  it('has a size, in bytes', () => {
    const fits = 'é'.repeat((MOST_CHECKPOINT_BYTES - 2) / 2);
    expect(Buffer.byteLength(checkpointJson(fits))).toBe(MOST_CHECKPOINT_BYTES);
    expect(() => checkpointJson(`${fits}e`)).toThrow(
      'it has 1048577 bytes of JSON, and at most 1048576 are kept. Save where to resume',
    );
  });

  it('takes all JSON, and gives it back', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const json = JSON.stringify(value);
        if (json.includes('\\u0000') || json.includes('\\ud')) return;
        expect(JSON.parse(checkpointJson(value))).toEqual(JSON.parse(json));
      }),
    );
  });
});
