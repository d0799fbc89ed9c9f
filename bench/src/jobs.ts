import type { JobDefinition } from '../../dist/lib/options/job-definition.js';
import { resolveJob } from '../../dist/lib/options/resolve-job.js';
import { resolveSchedulerOptions } from '../../dist/lib/options/resolve-options.js';

/** What a real service has: mostly nightly jobs, some by the minute, some monthly, spread by hash or by hand. */
const SHAPES: readonly ((index: number) => string)[] = [
  (index) => `${index % 60} ${index % 24} * * *`,
  (index) => `*/${1 + (index % 30)} * * * *`,
  (index) => `${index % 60} ${index % 24} * * MON-FRI`,
  (index) => `${index % 60} 2 ${1 + (index % 28)} * *`,
  () => 'H H * * *',
  (index) => `0 ${index % 24} L * *`,
];

const ZONES = Intl.supportedValuesOf('timeZone');

export interface Declaration {
  readonly name: string;
  readonly expression: string;
  readonly timeZone: string;
}

/** The same list each time, over all zones of the tz database. */
export function declarations(count: number): Declaration[] {
  return Array.from({ length: count }, (_, index) => ({
    name: `job-${index}`,
    expression: SHAPES[index % SHAPES.length]!(index),
    timeZone: ZONES[index % ZONES.length]!,
  }));
}

const { jobDefaults } = resolveSchedulerOptions(
  { connection: 'postgres://localhost/none' },
  { env: {}, embeddedInstalled: false },
);

/** As a decorated method is read. */
export function jobOf({ name, expression, timeZone }: Declaration): JobDefinition {
  return resolveJob({
    expression,
    options: { name, timeZone },
    defaultName: name,
    declaredBy: 'Bench.job',
    defaults: jobDefaults,
  });
}
