import { SchedulerError } from './scheduler.error.js';

/**
 * Thrown by the call of `ReceiptService.onceExternal`: the effect surely did not happen, for example because the provider
 * refused it. It is not in doubt then, and the next attempt makes the call. Anything else that is thrown leaves it open.
 */
export class EffectNotDone extends SchedulerError {}
