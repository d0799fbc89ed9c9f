import { Inject, Injectable, type OnApplicationShutdown } from '@nestjs/common';
import type { CronRun } from 'nestjs-distributed-cron';
import pg from 'pg';
import { SETTINGS } from './settings.token.js';
import type { ReplicaSettings } from './settings.js';

const INSERT = `insert into public.effects (job, fire_time, replica, attempt, entity) values ($1, $2, $3, $4, $5)`;

/** Writes what handlers do into a table without any uniqueness, so that doubles show. */
@Injectable()
export class Effects implements OnApplicationShutdown {
  private readonly pool: pg.Pool;

  constructor(@Inject(SETTINGS) private readonly settings: ReplicaSettings) {
    this.pool = new pg.Pool({
      connectionString: settings.url,
      max: 2,
      application_name: 'replica effects',
      allowExitOnIdle: true,
    });
    this.pool.on('error', () => undefined);
  }

  /** @param target the receipt's transaction; a connection of its own without one */
  async write(
    run: CronRun,
    entity: string,
    target?: { query(sql: string, parameters: unknown[]): Promise<unknown> },
  ): Promise<void> {
    await (target ?? this.pool).query(INSERT, [
      run.jobName,
      run.fireTime.toISOString(),
      this.settings.name,
      run.attempt,
      entity,
    ]);
  }

  async writeAll(
    run: CronRun,
    entities: string[],
    target: { query(sql: string, parameters: unknown[]): Promise<unknown> },
  ): Promise<void> {
    const insert =
      'insert into public.effects (job, fire_time, replica, attempt, entity) select $1, $2, $3, $4, unnest($5::text[])';
    await target.query(insert, [run.jobName, run.fireTime.toISOString(), this.settings.name, run.attempt, entities]);
  }

  async onApplicationShutdown(): Promise<void> {
    await this.pool.end();
  }
}
