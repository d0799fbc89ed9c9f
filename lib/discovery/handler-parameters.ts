import 'reflect-metadata';
import { CRON_ARGUMENTS_METADATA } from '../distributed-scheduler.tokens.js';

/** Where Nest keeps what `createParamDecorator` declares. */
const NEST_ROUTE_ARGUMENTS = '__routeArguments__';

/** What a handler gets: where in its parameters, and under which of Nest's keys. */
export interface HandlerParameter {
  /** Not one of Nest's own parameter types, so that pipes see a `custom` parameter, which `ValidationPipe` leaves alone. */
  readonly key: string;
  readonly index: number;
}

/** The `CronRun`. */
export const RUN_PARAMETER: HandlerParameter = { key: '99:0', index: 0 };

/** The `Page`, for handlers of pages. */
export const PAGE_PARAMETER: HandlerParameter = { key: '99:1', index: 1 };

/**
 * Nest applies guards, pipes and interceptors by the parameters it knows of: the run is the first, unless a custom decorator took its
 * place. It is told for as long as it binds the method, and no longer: for thousands of jobs it would be megabytes.
 */
export function withArguments<Result>(instance: object, methodName: string, parameters: readonly HandlerParameter[], work: () => Result): Result {
  const { constructor } = instance;
  const custom = Reflect.getMetadata(NEST_ROUTE_ARGUMENTS, constructor, methodName) as Record<string, { index: number }> | undefined;
  const taken = new Set(Object.values(custom ?? {}).map(({ index }) => index));
  const own = parameters.filter(({ index }) => !taken.has(index)).map(({ key, index }) => [key, { index, data: index, pipes: [] }] as const);
  Reflect.defineMetadata(CRON_ARGUMENTS_METADATA, { ...custom, ...Object.fromEntries(own) }, constructor, methodName);
  try {
    return work();
  } finally {
    Reflect.deleteMetadata(CRON_ARGUMENTS_METADATA, constructor, methodName);
  }
}
