import type { DataSourceOptions } from 'typeorm';
import { CustomerBalance } from './customers/customer-balance.entity.js';
import { Customer } from './customers/customer.entity.js';
import { BankImport } from './invoices/bank-import.entity.js';
import { Invoice } from './invoices/invoice.entity.js';
import { Statement } from './mailing/statement.entity.js';
import { ReceivablesReport } from './reports/receivables-report.entity.js';
import type { Settings } from './settings.js';

const ENTITIES = [Customer, CustomerBalance, Invoice, BankImport, Statement, ReceivablesReport];

/** The application's own data source. The scheduler writes receipts in its transactions. */
export function databaseOptions({ databaseUrl, schema }: Pick<Settings, 'databaseUrl' | 'schema'>) {
  return {
    type: 'postgres',
    url: databaseUrl,
    schema,
    entities: ENTITIES,
    poolSize: 5,
    applicationName: 'invoice-service',
    connectTimeoutMS: 10_000,
  } satisfies DataSourceOptions;
}
