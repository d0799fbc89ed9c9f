import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { DataSource, EventSubscriber, type EntitySubscriberInterface } from 'typeorm';
import { inMergedTransaction } from '../../lib/database/transactions.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { Wire } from '../support/wire.js';

let test: TestDatabase;
let wire: Wire;
let dataSource: DataSource;
const heard: string[] = [];

@EventSubscriber()
class Subscriber implements EntitySubscriberInterface {
  afterTransactionStart() {
    heard.push('started');
  }

  beforeTransactionCommit({ manager }: { manager: { query(sql: string): Promise<unknown> } }) {
    heard.push('committing');
    return manager.query(`insert into effects values ('of a subscriber')`) as Promise<void>;
  }
}

beforeEach(async () => {
  heard.length = 0;
  test = await createTestDatabase();
  wire = await Wire.to(test.url);
  dataSource = await new DataSource({
    type: 'postgres',
    url: wire.url,
    poolSize: 1,
    logging: false,
    subscribers: [Subscriber],
    poolErrorHandler: () => {},
  }).initialize();
  await test.query('create table effects (what text)');
});
afterEach(async () => {
  await dataSource.destroy();
  wire.end();
  await test.drop();
});

const effects = async () =>
  (await test.query<{ what: string }>('select what from effects order by what')).map(({ what }) => what);
const insert = (what: string) => ({ text: 'insert into effects values ($1) returning what', values: [what] });

describe('a transaction whose ends are merged with its statements', () => {
  it('is one that TypeORM and its subscribers know of', async () => {
    const result = await inMergedTransaction(
      dataSource,
      [insert('first'), insert(`quoted ' \\ $1`)],
      async (manager, rows) => {
        expect(rows).toEqual([[{ what: 'first' }], [{ what: `quoted ' \\ $1` }]]);
        expect(manager.queryRunner!.isTransactionActive).toBe(true);
        await manager.transaction((inner) => inner.query(`insert into effects values ('nested')`));
        return { closing: [insert('last')], result: 'done' };
      },
    );
    expect(result).toBe('done');
    expect(heard).toEqual(['started', 'started', 'committing', 'committing']);
    expect(await effects()).toEqual([
      'first',
      'last',
      'nested',
      'of a subscriber',
      'of a subscriber',
      `quoted ' \\ $1`,
    ]);
  });

  it.each<[string, () => Promise<unknown>]>([
    [
      'its opening fails',
      () =>
        inMergedTransaction(dataSource, [insert('a'), { text: 'no sql', values: [] }], async () => ({
          closing: [],
          result: null,
        })),
    ],
    ['its work fails', () => inMergedTransaction(dataSource, [insert('a')], () => Promise.reject(new Error('no')))],
    [
      'its closing fails',
      () =>
        inMergedTransaction(dataSource, [insert('a')], async () => ({
          closing: [{ text: 'select 1 / 0', values: [] }],
          result: null,
        })),
    ],
    [
      'an error of the database was swallowed',
      () =>
        inMergedTransaction(dataSource, [insert('a')], async (manager) => {
          await manager.query('no sql').catch(() => {});
          return { closing: [], result: null };
        }),
    ],
  ])('leaves nothing, and its connection usable, when %s', async (_, failing) => {
    await expect(failing()).rejects.toThrow();
    expect(
      await inMergedTransaction(dataSource, [insert('undone')], async () => ({ closing: null, result: 'nothing' })),
    ).toBe('nothing');
    expect(await effects()).toEqual([]);
  });

  it.each(['opening', 'closing'])(
    'on a line that falls silent before its %s ends with an error, and the next gets a new one',
    async (where) => {
      if (where === 'opening') wire.silenceConnections();
      const silenced = inMergedTransaction(
        dataSource,
        [insert('a')],
        async () => {
          wire.silenceConnections();
          return { closing: [insert('b')], result: null };
        },
        300,
      );
      await expect(silenced).rejects.toThrow();
      await inMergedTransaction(dataSource, [insert('next')], async () => ({ closing: [], result: null }));
      expect(await effects()).toEqual(['next', 'of a subscriber']);
    },
  );
});
