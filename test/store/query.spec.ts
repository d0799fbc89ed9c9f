import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { queryOn, type Query } from '../../lib/database/query.js';
import { openStores, type Stores } from '../support/stores.js';

let stores: Stores;
let query: Query;

beforeAll(async () => {
  stores = await openStores();
  query = queryOn(stores.database.coordination);
  await query('create table things (id integer, name text)');
});
afterAll(() => stores.close());

describe('trap 15: raw SQL answers with rows, whatever TypeORM makes of the statement', () => {
  it.each([
    ['insert', `insert into things values (1, 'a'), (2, 'b') returning id`, [{ id: 1 }, { id: 2 }]],
    ['select of two rows', 'select id from things order by id', [{ id: 1 }, { id: 2 }]],
    ['update', `update things set name = 'c' where id = 1 returning name`, [{ name: 'c' }]],
    ['update of nothing', `update things set name = 'c' where id = 9 returning name`, []],
    ['update without returning', `update things set name = 'd' where id = 1`, []],
    ['delete', 'delete from things where id = 2 returning id', [{ id: 2 }]],
    [
      'update behind with',
      `with t as (select 1 as id) update things set name = 'e' from t where things.id = t.id returning name`,
      [{ name: 'e' }],
    ],
    ['select of nothing', 'select id from things where id = 9', []],
  ])('%s', async (_name, sql, rows) => {
    expect(await query(sql)).toEqual(rows);
  });
});
