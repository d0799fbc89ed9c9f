import { Test, type TestingModule } from '@nestjs/testing';
import { DistributedSchedulerModule } from 'nestjs-distributed-cron';
import { runJob } from 'nestjs-distributed-cron/testing';
import { DataSource } from 'typeorm';
import { Customers, Invoice, Invoices } from './invoices';

describe('Invoices', () => {
  let app: TestingModule;
  let database: DataSource;

  beforeAll(async () => {
    const url = process.env.DATABASE_URL;
    database = await new DataSource({ type: 'postgres', url, entities: [Invoice], synchronize: true }).initialize();
    app = await Test.createTestingModule({
      imports: [DistributedSchedulerModule.forRoot({ dataSource: database, migrate: true, enabled: false })],
      providers: [Invoices, Customers],
    }).compile();
    await app.init();
  });

  afterAll(async () => {
    await app.close();
    await database.destroy();
  });

  it('sends one invoice to each customer', async () => {
    const end = await runJob(app, 'nightly-invoices');
    expect(end.type).toBe('run.completed');
    const invoices = await database.getRepository(Invoice).find({ order: { customer: 'asc' } });
    expect(invoices.map(({ customer }) => customer)).toEqual(['4711', '4712']);
  });
});
