import { checkDatabase } from './1796000000000-CheckDatabase.js';
import { createJobActions } from './1796000000006-CreateJobActions.js';
import { createJobAlerts } from './1796000000007-CreateJobAlerts.js';
import { createJobPages } from './1796000000008-CreateJobPages.js';
import { createJobInstances } from './1796000000005-CreateJobInstances.js';
import { createJobRuns } from './1796000000002-CreateJobRuns.js';
import { createJobSchedule } from './1796000000001-CreateJobSchedule.js';
import { createReceipts } from './1796000000003-CreateReceipts.js';
import { describeInstances } from './1796000000021-DescribeInstances.js';
import { createJobBackfills } from './1796000000004-CreateJobBackfills.js';
import { createOperatorFunctions } from './1796000000013-CreateOperatorFunctions.js';
import { createReceiptFunctions } from './1796000000011-CreateReceiptFunctions.js';
import { createPageFunctions } from './1796000000012-CreatePageFunctions.js';
import { createRules } from './1796000000009-CreateRules.js';
import { createScheduleFunctions } from './1796000000014-CreateScheduleFunctions.js';
import { createBackfillFunctions } from './1796000000015-CreateBackfillFunctions.js';
import { createUpkeepFunctions } from './1796000000016-CreateUpkeepFunctions.js';
import { createRunFunctions } from './1796000000010-CreateRunFunctions.js';
import type { MigrationClass } from './frozen.js';

export type { MigrationClass };

/**
 * The library's migrations, oldest first, for `migrations` of your own data source. Each may meet what it would create.
 * @param schema where the tables go, as given to `forRoot({ schema })`
 * @default the schema of the data source that runs them, or `public`
 */
export function schedulerMigrationsIn(schema?: string): MigrationClass[] {
  const creations = [
    checkDatabase,
    createJobSchedule,
    createJobRuns,
    createReceipts,
    createJobBackfills,
    createJobInstances,
    createJobActions,
    createJobAlerts,
    createJobPages,
    createRules,
    createRunFunctions,
    createReceiptFunctions,
    createPageFunctions,
    createOperatorFunctions,
    createScheduleFunctions,
    createBackfillFunctions,
    createUpkeepFunctions,
    describeInstances,
  ];
  return creations.map((create) => create(schema));
}

/** The library's migrations for the data source's own schema. */
export const schedulerMigrations: MigrationClass[] = schedulerMigrationsIn();
