import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { ToldStore } from '../../lib/observe/alerts.service.js';
import { openStores, type Stores } from '../support/stores.js';

let stores: Stores;
let told: ToldStore;
beforeAll(async () => {
  stores = await openStores();
  told = new ToldStore(stores.database);
});
afterAll(() => stores.close());
beforeEach(() => stores.test.query('delete from job_alerts'));

const AN_HOUR = { againAfterMs: 3_600_000, unlessSince: null };
const toldAgo = (interval: string) =>
  stores.test.query(`update job_alerts set told_at = now() - $1::interval`, [interval]);

describe('what all replicas find', () => {
  it('is told by one of them', async () => {
    const all = await Promise.all(Array.from({ length: 10 }, () => told.first('x', AN_HOUR)));
    expect(all.filter(Boolean)).toHaveLength(1);
    expect(await told.first('y', AN_HOUR)).toBe(true);
  });

  it('is told again when it lasts', async () => {
    await told.first('x', AN_HOUR);
    await toldAgo('59 minutes');
    expect(await told.first('x', AN_HOUR)).toBe(false);
    await toldAgo('61 minutes');
    expect(await told.first('x', AN_HOUR)).toBe(true);
    expect(await told.first('x', AN_HOUR)).toBe(false);
  });

  it('is told again when it is another fact than then', async () => {
    await told.first('x', AN_HOUR);
    await toldAgo('10 minutes');
    expect(await told.first('x', { ...AN_HOUR, unlessSince: new Date(Date.now() - 20 * 60_000) })).toBe(false);
    expect(await told.first('x', { ...AN_HOUR, unlessSince: new Date(Date.now() - 5 * 60_000) })).toBe(true);
  });
});
