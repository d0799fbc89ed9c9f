import type { TestDatabase } from '../../support/database.js';

const LOOK_EVERY_MS = 200;

/** Watches how long any session of a database waits for another's lock. */
export class LockWaits {
  longestMs = 0;
  private readonly timer = setInterval(() => void this.look().catch(() => undefined), LOOK_EVERY_MS);

  constructor(private readonly database: TestDatabase) {}

  stop(): void {
    clearInterval(this.timer);
  }

  private async look(): Promise<void> {
    const [row] = await this.database.query<{ longest: number | null }>(
      `select max(extract(epoch from clock_timestamp() - waitstart) * 1000)::float8 as longest
       from   pg_locks
       join   pg_stat_activity using (pid)
       where  not granted
       and    datname = current_database()`,
    );
    this.longestMs = Math.max(this.longestMs, row?.longest ?? 0);
  }
}
