import { AsyncLocalStorage } from 'node:async_hooks';

/**
 * Does something in the async context in which this module was loaded, that of nobody's request. What outlives its
 * caller begins here: a timer, a loop, a connection or a handler that was started inside a request would keep that
 * request's tenant, user or trace for ever, and show it to all that follows.
 */
export const inCleanContext: <Result>(work: () => Result) => Result = AsyncLocalStorage.snapshot();
