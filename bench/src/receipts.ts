import 'reflect-metadata';
import { performance } from 'node:perf_hooks';
import { DataSource, EntitySchema, type EntityManager } from 'typeorm';
import type { ReceiptService } from '../../dist/lib/index.js';
import type { Benchmark, Effort, Figure } from './benchmark.js';
import { onServer } from './database.js';
import { inOneRun } from './one-run.js';
import { mediansOf } from './sampling.js';

/** All of them take a quarter of an hour: `BENCH_ENTITIES` takes fewer. */
const BATCHED = Number(process.env.BENCH_ENTITIES ?? 100_000);
/** A transaction each: what one costs does not depend on how many there are. */
const SINGLY = BATCHED / 5;
const BATCH = 100;
const POOL = 5;

interface Invoice {
  readonly customer: string;
  readonly text: string;
}
const Invoice = new EntitySchema<Invoice>({
  name: 'invoices',
  columns: { customer: { type: 'text', primary: true }, text: { type: 'text' } },
});

/** One way to write the same rows: with receipts, and as a user would without. */
interface Way {
  readonly name: string;
  readonly entities: number;
  /** How many times the plain inserts it should stay within. */
  readonly within: number;
  plain(source: DataSource, entities: readonly string[]): Promise<unknown>;
  ours(receipts: ReceiptService, entities: readonly string[], effect: string): Promise<unknown>;
}

const invoice = (customer: string): Invoice => ({ customer, text: 'for what was used since the last one' });
const insert = (customer: string, manager: EntityManager) => manager.insert(Invoice, invoice(customer));
const insertAll = (customers: readonly string[], manager: EntityManager) =>
  manager.insert(Invoice, customers.map(invoice));

const each = (concurrency: number): Pick<Way, 'plain' | 'ours'> => ({
  plain: (source, entities) =>
    inBatches(entities, concurrency, (batch) =>
      source.transaction(async (manager) => {
        for (const entity of batch) await insert(entity, manager);
      }),
    ),
  ours: (receipts, entities, effect) => receipts.onceEach(entities, insert, { batch: BATCH, concurrency, effect }),
});

const WAYS: readonly Way[] = [
  {
    name: 'singly',
    entities: SINGLY,
    within: 2,
    async plain(source, entities) {
      for (const entity of entities) await source.transaction((manager) => insert(entity, manager));
    },
    async ours(receipts, entities, effect) {
      for (const entity of entities) await receipts.once(entity, (manager) => insert(entity, manager), { effect });
    },
  },
  { name: 'each-of-100', entities: BATCHED, within: 1.3, ...each(1) },
  { name: 'each-of-100-4-beside', entities: BATCHED, within: 1.3, ...each(4) },
  {
    name: 'batch-of-100',
    entities: BATCHED,
    within: 1.3,
    plain: (source, entities) =>
      inBatches(entities, 1, (batch) => source.transaction((manager) => insertAll(batch, manager))),
    ours: (receipts, entities, effect) => receipts.onceBatch(entities, insertAll, { batch: BATCH, effect }),
  },
];

/** What receipts cost: the same inserts with and without them, by turns in one run. */
export const receipts: Benchmark = {
  name: 'receipts',
  about: 'an insert for each of 100,000 entities (20,000 singly) with its receipt, and without; each',

  async run({ quick, samples }: Effort): Promise<Figure[]> {
    return onServer(async (url) => {
      const source = await new DataSource({
        type: 'postgres',
        url,
        poolSize: POOL,
        entities: [Invoice],
        synchronize: true,
      }).initialize();
      const connection = { url, entities: [Invoice] };
      const figures: Figure[] = [];
      await inOneRun({ connection, receiptPoolSize: POOL }, async (service) => {
        for (const way of WAYS)
          figures.push(await measured(way, quick ? 2 * BATCH : way.entities, samples, source, service));
      });
      await source.destroy();
      return figures;
    });
  },
};

async function measured(
  way: Way,
  count: number,
  samples: number,
  source: DataSource,
  service: ReceiptService,
): Promise<Figure> {
  const entities = Array.from({ length: count }, (_, index) => `customer ${index}`);
  let round = 0;
  const micros = async (work: () => Promise<unknown>) => {
    await source.query('truncate invoices, receipts');
    const startedAt = performance.now();
    await work();
    const took = performance.now() - startedAt;
    if ((await source.getRepository(Invoice).count()) !== count)
      throw new Error(`Not every invoice of ${way.name} was written.`);
    return (took * 1_000) / count;
  };
  const [floor, value] = await mediansOf(samples, [
    () => micros(() => way.plain(source, entities)),
    () => micros(() => way.ours(service, entities, `round ${(round += 1)}`)),
  ]);
  return { name: `receipts.${way.name}`, value: value!, unit: 'µs', floor: floor!, reach: way.within * floor! };
}

async function inBatches(
  entities: readonly string[],
  concurrency: number,
  work: (batch: readonly string[]) => Promise<unknown>,
): Promise<void> {
  let next = 0;
  const worker = async () => {
    while (next < entities.length) await work(entities.slice(next, (next += BATCH)));
  };
  await Promise.all(Array.from({ length: concurrency }, worker));
}
