import type { DataSource } from 'typeorm';

/** The database's clock, which everything is judged by; asked once, then carried on by this machine's. */
export class DatabaseClock {
  private constructor(private readonly offsetMs: number) {}

  static async ask(dataSource: DataSource): Promise<DatabaseClock> {
    const sentAt = Date.now();
    const [{ now }] = (await dataSource.query<{ now: Date }[]>('select clock_timestamp() as now')) as [{ now: Date }];
    return new DatabaseClock(now.getTime() - (sentAt + Date.now()) / 2);
  }

  now(): Date {
    return new Date(Date.now() + this.offsetMs);
  }
}
