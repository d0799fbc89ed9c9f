/** TypeORM's repository of `job_runs`, on the module's own pool. */
export const JOB_RUN_REPOSITORY = Symbol('JOB_RUN_REPOSITORY');

/** TypeORM's repository of `receipts`, on the module's own pool. */
export const RECEIPT_REPOSITORY = Symbol('RECEIPT_REPOSITORY');
