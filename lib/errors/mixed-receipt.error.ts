import { SchedulerError } from './scheduler.error.js';

/** An effect in the database and one outside it need receipts of their own: one would be taken for the other. */
export class MixedReceiptError extends SchedulerError {
  constructor(entity: string, effect: string, there: 'once' | 'onceExternal') {
    const asked = there === 'once' ? 'onceExternal' : 'once';
    super(
      `ReceiptService.${asked}("${entity}") found the receipt of a ${there}() for the same entity and effect ("${effect}"). ` +
        `Tell the two apart by a name: ${asked}(entity, …, { effect: 'mail' }).`,
    );
  }
}
