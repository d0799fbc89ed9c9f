import fc from 'fast-check';

/**
 * A field as it is written, and the numbers it stands for: made together, so that a test needs no reader of its own.
 */
export interface WrittenField {
  readonly text: string;
  readonly values: ReadonlySet<number>;
}

export interface WrittenExpression {
  readonly text: string;
  readonly second: WrittenField;
  readonly minute: WrittenField;
  readonly hour: WrittenField;
  readonly dayOfMonth: WrittenField;
  readonly month: WrittenField;
  readonly dayOfWeek: WrittenField;
}

const second = fc.constantFrom<WrittenField>(
  { text: '0', values: new Set([0]) },
  { text: '17', values: new Set([17]) },
  { text: '50,10', values: new Set([10, 50]) },
  { text: '*/25', values: new Set([0, 25, 50]) },
);
const minute = aField(0, 59);
const hour = fc.oneof(aField(0, 23), aField(0, 23, 3));
const dayOfMonth = fc.oneof(
  { weight: 2, arbitrary: fc.constant(all('*', 1, 31)) },
  fc.constant(all('?', 1, 31)),
  aField(1, 31),
);
const month = fc.oneof({ weight: 4, arbitrary: fc.constant(all('*', 1, 12)) }, aField(1, 12));
const dayOfWeek = fc.oneof({ weight: 2, arbitrary: fc.constant(all('*', 0, 6)) }, aField(0, 6));

/** Six fields, often with times of day in which clocks change. Some never fire. */
export const anExpression: fc.Arbitrary<WrittenExpression> = fc
  .record({ second, minute, hour, dayOfMonth, month, dayOfWeek })
  .map((fields) => ({
    ...fields,
    text: [fields.second, fields.minute, fields.hour, fields.dayOfMonth, fields.month, fields.dayOfWeek]
      .map(({ text }) => text)
      .join(' '),
  }));

/** @param highest the highest number that is written */
function aField(min: number, max: number, highest = max): fc.Arbitrary<WrittenField> {
  const value = fc.integer({ min, max: highest });
  const one = value.map((n) => ({ text: `${n}`, values: new Set([n]) }));
  const stars = fc
    .integer({ min: 1, max: Math.max(1, Math.floor(max / 2)) })
    .map((step) => ({ text: `*/${step}`, values: steps(min, max, step) }));
  const range = fc.tuple(value, value, fc.integer({ min: 1, max: 3 })).map(([from, to, step]) => ({
    text: step === 1 ? `${from}-${to}` : `${from}-${to}/${step}`,
    values: from <= to ? steps(from, to, step) : wrapped(from, to, step, min, max),
  }));
  const item = fc.oneof(one, one, range);
  const list = fc.array(item, { minLength: 1, maxLength: 3 }).map((items) => ({
    text: items.map(({ text }) => text).join(','),
    values: new Set(items.flatMap(({ values }) => [...values])),
  }));
  return highest < max ? list : fc.oneof(fc.constant(all('*', min, max)), stars, list, list);
}

function all(text: string, min: number, max: number): WrittenField {
  return { text, values: steps(min, max, 1) };
}

function steps(from: number, to: number, step: number): Set<number> {
  const values = new Set<number>();
  for (let value = from; value <= to; value += step) {
    values.add(value);
  }
  return values;
}

function wrapped(from: number, to: number, step: number, min: number, max: number): Set<number> {
  const size = max - min + 1;
  return new Set([...steps(from, to + size, step)].map((value) => ((value - min) % size) + min));
}
