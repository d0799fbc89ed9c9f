import { queryOn } from '../connection/query.js';
import type { SchedulerDatabase } from '../scheduler-database.js';

/** What idempotency keys are made with: drawn once for these tables, the same for every replica and version. */
export class ReceiptSecretStore {
  constructor(private readonly database: SchedulerDatabase) {}

  async read(): Promise<string> {
    return (await this.find()) ?? (await this.draw()) ?? (await this.find())!;
  }

  private async find(): Promise<string | undefined> {
    const [row] = await queryOn(this.database.coordination)<{ secret: string }>(`select secret from ${this.database.tables.receiptSecret}`);
    return row?.secret;
  }

  /** The migration draws one; tables that were copied without their rows have none. */
  private async draw(): Promise<string | undefined> {
    const [row] = await queryOn(this.database.coordination)<{ secret: string }>(
      `insert into ${this.database.tables.receiptSecret} default values
       on conflict do nothing
       returning secret`,
    );
    return row?.secret;
  }
}
