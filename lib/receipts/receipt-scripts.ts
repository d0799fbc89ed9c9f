import { Inject, Injectable } from '@nestjs/common';
import { INSTANCE_ID } from '../options/tokens.js';
import type { RunKey } from '../options/run.js';
import { UnknownRunError } from '../errors/operator.errors.js';
import type { JoinedReceipt } from '../database/transactions.js';
import { OccurrenceReceiptStore, type OccurrenceOpened } from './receipt.store.js';
import { ReceiptStore, receiptAnswer, type ReceiptAnswer, type ReceiptKey, type ReceiptRow } from './receipt.store.js';
import { StrictReceiptStore } from './receipt.store.js';
import { IdempotencyKeys } from './idempotency-key.js';
import type { InFlightRun } from '../runs/in-flight-runs.js';
import { ReceiptRefusals } from './receipt-refusals.js';
import type { ReceiptScript } from './receipt-writer.js';

/** Which statements a receipt needs: those of an attempt, which its lease fences, or those of an occurrence. */
@Injectable()
export class ReceiptScripts {
  constructor(
    private readonly store: ReceiptStore,
    private readonly strict: StrictReceiptStore,
    private readonly occurrences: OccurrenceReceiptStore,
    private readonly refusals: ReceiptRefusals,
    private readonly keys: IdempotencyKeys,
    @Inject(INSTANCE_ID) private readonly instanceId: string,
  ) {}

  /** Accepted while the attempt is this process'. */
  ofRun(run: InFlightRun, key: ReceiptKey): ReceiptScript {
    const { store, strict } = this;
    const { owned } = run;
    const { jobName, fireTime, attempt } = owned;
    const idempotency = this.keys.of(owned, key.entity, key.effect);
    return {
      key,
      run,
      fireTime,
      facts: () => ({ jobName, fireTime, attempt }),
      opening: (own) => store.opening(owned, key, idempotency, own),
      answerOf: ([row]) => receiptAnswer(row as ReceiptRow),
      async openStrictly(receipt: JoinedReceipt): Promise<ReceiptAnswer> {
        const [held] = await receipt.send([strict.holding(owned)]);
        if (!strict.isHeld(held!) || !(await strict.isOurs(owned))) return { kind: 'refused' };
        const [[row]] = (await receipt.send([strict.writing(owned, key, idempotency)])) as [[ReceiptRow]];
        return receiptAnswer(row);
      },
      // A run that was held from the beginning is still ours at the end.
      closing: (result, strictly) =>
        strictly ? store.keeping(owned, key, result) : [store.closing(owned, key, result)],
      refused: () => this.refusals.tell(run, key),
    };
  }

  /** Accepted as long as the occurrence has a row, whoever runs it. */
  ofOccurrence(run: RunKey, key: ReceiptKey): ReceiptScript {
    const { store, occurrences, instanceId, keys } = this;
    const { jobName, fireTime } = run;
    let attempt = 0;
    return {
      key,
      run: null,
      fireTime,
      facts: () => ({ jobName, fireTime, attempt }),
      opening: (own) => occurrences.opening(run, key, instanceId, keys.of(run, key.entity, key.effect), own),
      answerOf([row]): ReceiptAnswer {
        const opened = row as OccurrenceOpened;
        attempt = Number(opened.of_attempt);
        return receiptAnswer(opened);
      },
      closing: (result) => store.keeping(run, key, result),
      refused: () => new UnknownRunError(jobName, fireTime),
    };
  }
}
