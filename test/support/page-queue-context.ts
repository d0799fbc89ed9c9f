import type { PageQueueContext } from '../../lib/fan-out/page.js';

/** What the scheduler would give a queue, for its database. */
export function pageQueueContext(url: string, failures: unknown[] = []): PageQueueContext {
  return {
    schema: 'public',
    migrate: true,
    postgres: (applicationName) => ({ connectionString: url, application_name: applicationName }),
    failed: (error) => void failures.push(error),
  };
}
