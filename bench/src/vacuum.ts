import type { Benchmark, Effort, Figure } from './benchmark.js';
import { fillFigures } from './fill.js';
import { loaded } from './loaded-partition.js';

const FILL_FACTORS = [100, 90, 80, 70];

/** How a partition of the runs is vacuumed; by PostgreSQL's defaults unless it says otherwise. */
const SETTINGS = {
  never: 'autovacuum_enabled = off',
  default: 'fillfactor = 80',
  often:
    'autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 50000, autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 100000, autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 50000',
};

/** As many as one of a hundred replicas claims of a thousand jobs. */
const FEW = 10;

/** A run is renewed so often, where its lease is renewed at all. */
const RENEWALS = 3;

/** What updates leave in the partition of a month, and what keeps it in order. */
export const vacuum: Benchmark = {
  name: 'vacuum',
  about:
    'updates that stay in place by fill factor; and what 1,000,000 runs leave behind, by how often autovacuum passes (it looks each second, since the runs come 60 times as fast as 1,000 a minute)',

  async run({ quick }: Effort): Promise<Figure[]> {
    const figures: Figure[] = [];
    for (const fillFactor of quick ? [80] : FILL_FACTORS)
      figures.push(...(await inPlaceFigures(fillFactor, quick ? 500 : 20_000)));
    for (const fillFactor of quick ? (['as-made'] as const) : ([100, 80, 'as-made'] as const))
      figures.push(...(await fillFigures(fillFactor, quick ? 200 : 5_000)));
    for (const [name, settings] of Object.entries(quick ? { default: SETTINGS.default } : SETTINGS))
      figures.push(...(await passFigures(name, settings, quick ? 500 : 1_000_000)));
    return figures;
  },
};

async function inPlaceFigures(fillFactor: number, runs: number): Promise<Figure[]> {
  const renewed = await loaded({
    settings: `fillfactor = ${fillFactor}, autovacuum_enabled = off`,
    runs,
    batch: FEW,
    renewals: RENEWALS,
  });
  const ended = await loaded({
    settings: `fillfactor = ${fillFactor}, autovacuum_enabled = off`,
    runs,
    batch: FEW,
    renewals: 0,
  });
  const { rowBytes } = renewed;
  return [
    {
      name: `vacuum.moved-by-renewals-${fillFactor}`,
      value: 1 - renewed.inPlace / (RENEWALS * runs),
      unit: 'share',
      floor: 0,
      reach: 0.1,
    },
    { name: `vacuum.moved-by-ends-${fillFactor}`, value: 1 - ended.inPlace / runs, unit: 'share', floor: 0, reach: 1 },
    {
      name: `vacuum.bytes-renewed-${fillFactor}`,
      value: renewed.tableBytes / runs,
      unit: 'bytes',
      floor: rowBytes,
      reach: 3 * rowBytes,
    },
    {
      name: `vacuum.log-renewed-${fillFactor}`,
      value: renewed.logBytes / runs,
      unit: 'bytes',
      floor: rowBytes,
      reach: 20 * rowBytes,
    },
    {
      name: `vacuum.log-${fillFactor}`,
      value: ended.logBytes / runs,
      unit: 'bytes',
      floor: rowBytes,
      reach: 10 * rowBytes,
    },
    {
      name: `vacuum.bytes-${fillFactor}`,
      value: ended.tableBytes / runs,
      unit: 'bytes',
      floor: rowBytes,
      reach: 3 * rowBytes,
    },
  ];
}

async function passFigures(name: string, settings: string, runs: number): Promise<Figure[]> {
  const { mostDead, passes, tableBytes, indexBytes, logBytes, rowBytes, took } = await loaded({
    settings,
    runs,
    batch: 100,
    renewals: 0,
  });
  return [
    { name: `vacuum.dead-${name}`, value: mostDead / runs, unit: 'a run', floor: 0, reach: 0.25 },
    { name: `vacuum.passes-${name}`, value: passes, unit: 'times', floor: 0, reach: 100 },
    { name: `vacuum.table-${name}`, value: tableBytes / runs, unit: 'bytes', floor: rowBytes, reach: 3 * rowBytes },
    { name: `vacuum.indexes-${name}`, value: indexBytes / runs, unit: 'bytes', floor: 0, reach: 2 * rowBytes },
    { name: `vacuum.log-${name}`, value: logBytes / runs, unit: 'bytes', floor: rowBytes, reach: 10 * rowBytes },
    { name: `vacuum.claim-${name}`, value: took.claimMs, unit: 'ms', floor: 0, reach: 20 },
    { name: `vacuum.end-${name}`, value: took.endMs, unit: 'ms', floor: 0, reach: 20 },
    { name: `vacuum.outlook-${name}`, value: took.outlookMs, unit: 'ms', floor: 0, reach: 5 },
  ];
}
