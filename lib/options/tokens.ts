/** The options as given to `forRoot()`, before anything is read from them. */
export const SCHEDULER_OPTIONS_INPUT = Symbol('SCHEDULER_OPTIONS_INPUT');

/** The resolved options: validated, every default filled in, frozen. */
export const SCHEDULER_OPTIONS = Symbol('SCHEDULER_OPTIONS');

/** This process' name in `claimed_by`: a string, unique for each start. */
export const INSTANCE_ID = Symbol('INSTANCE_ID');

/**
 * Provide an `AlertSink` under this token, in any module, and alerts go to it. `forRoot({ alerts: { sink } })` comes
 * before it.
 */
export const ALERT_SINK = Symbol('ALERT_SINK');

/** Provide a `PageQueue` under this token, in any module, for jobs that fan out. `DistributedCronBullMqModule` does. */
export const PAGE_QUEUE = Symbol('PAGE_QUEUE');

/** Reflect key of the schedules a method declares: `CronDeclaration[]`, on the prototype and the method's name. */
export const CRON_METADATA = 'nestjs-distributed-cron:schedules';

/**
 * Reflect key of the names under which a method runs jobs made at run time: `string[]`, on the prototype and the
 * method's name.
 */
export const HANDLER_METADATA = 'nestjs-distributed-cron:handlers';

/**
 * Reflect key of the jobs whose pages a method handles: `PageDeclaration[]`, on the prototype and the method's name.
 */
export const PAGE_METADATA = 'nestjs-distributed-cron:pages';

/** Reflect key of a handler's parameters, in the form Nest's context creator reads. */
export const CRON_ARGUMENTS_METADATA = 'nestjs-distributed-cron:arguments';
