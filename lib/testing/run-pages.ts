import type { INestApplicationContext } from '@nestjs/common';
import type { PageProgress } from '../fan-out/page.js';
import type { RunKey } from '../options/run.js';
import { PageExecutor } from '../fan-out/page-executor.service.js';
import { PageStore } from '../fan-out/page.repository.js';

/**
 * Works the pages of an occurrence that can begin now, here and one after the other, as deliveries of the queue would.
 * For tests of applications that were started with `enabled: false`, after `runJob`.
 * @returns how far the occurrence is; pages that wait for their next attempt are among its `failed`
 */
export async function runPages(app: INestApplicationContext, { jobName, fireTime }: RunKey): Promise<PageProgress> {
  const store = app.get(PageStore, { strict: false });
  const executor = app.get(PageExecutor, { strict: false });
  for (const ticket of await store.open({ jobName, fireTime })) await executor.work(ticket);
  return store.progress({ jobName, fireTime });
}
