import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { insertRun } from '../support/run-rows.js';
import { openStores, secondsAgo, type Stores } from '../support/stores.js';

const PAGE = readFileSync(new URL('../../docs/runs.md', import.meta.url), 'utf8');
const STATEMENTS = [...PAGE.matchAll(/```sql\n([^]*?)```/g)]
  .flatMap(([, block]) => block!.split(/;\s*(?=\n|$)/))
  .map((text) => text.trim())
  .filter((text) => text !== '');

let stores: Stores;
beforeAll(async () => {
  stores = await openStores();
  for (const [index, status] of (['running', 'failed', 'dead'] as const).entries())
    await insertRun(stores.test, 'job', secondsAgo(index), status);
  await stores.test.query(`update job_runs set started_at = now() - interval '2 seconds' where status = 'running'`);
  await stores.test.query(
    `insert into job_schedule (name, cron, time_zone, policies) values ('job', '* * * * *', 'UTC', '{"budgetMs": 1000}')`,
  );
});
afterAll(() => stores.close());

it.each(STATEMENTS.filter((sql) => !sql.includes('nightly')))('docs/runs.md: %s', async (sql) => {
  expect(await stores.test.query(sql)).toHaveLength(1);
});

it('docs/runs.md: the attempts of a run, the last one and those before it', async () => {
  const sql = STATEMENTS.find((text) => text.includes('nightly'))!;
  await stores.partitions.ensure([new Date('2026-11-29T01:15:00Z')]);
  await insertRun(stores.test, 'nightly-invoices', new Date('2026-11-29T01:15:00Z'), 'done');
  await stores.test.query(
    `update job_runs
     set    attempt = 2, earlier_attempts = '[{"attempt": 1, "status": "failed", "claimedBy": "A", "startedAt": "2026-11-29T01:15:00Z", "error": {"message": "no"}}]'
     where  job_name = 'nightly-invoices'`,
  );
  expect(await stores.test.query(sql)).toMatchObject([
    { attempt: 1, status: 'failed', error: 'no' },
    { attempt: 2, status: 'done', error: null },
  ]);
});
