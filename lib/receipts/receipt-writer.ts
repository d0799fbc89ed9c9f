import { Inject, Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { againOnConflict } from '../database/retry.js';
import { isRefusedClose } from '../database/sql-state.js';
import {
  inJoinedTransaction,
  inMergedTransaction,
  type JoinedReceipt,
  type Statement,
} from '../database/transactions.js';
import { unknownRun } from '../errors/errors.js';
import { mixedReceipt } from '../errors/run.errors.js';
import { storableJson } from '../errors/stored-error.js';
import type { ReceiptKey, RunKey } from '../options/run.js';
import { INSTANCE_ID } from '../options/tokens.js';
import { IdempotencyKeys } from '../runs/idempotency-key.js';
import type { InFlightRun } from '../runs/in-flight-runs.js';
import { BypassWatch } from './bypass-watch.js';
import { type ReceiptPlace, ReceiptPlaces } from './receipt-places.js';
import { type ReceiptAnswer, receiptAnswer, ReceiptRepository, type ReceiptRow } from './receipt.repository.js';

/** Writes through the manager: everything it does commits with the receipt, or not at all. */
export type Effect<Result> = (manager: EntityManager) => Promise<Result> | Result;

/** What became of an effect. */
export type OnceOutcome<Result> =
  /** It happened now. */
  | { readonly applied: true; readonly result: Result }
  /**
   * It had happened already. The result is what it returned then, as JSON (a `Date` is a text), if that was at most 64
   * kB.
   */
  | { readonly applied: false; readonly result: Result | undefined };

/** One receipt: what is asked before its effect and after it, and how the answer reads. */
export interface ReceiptScript {
  readonly key: ReceiptKey;
  /** The attempt that the statements name; null where they name none. */
  readonly run: InFlightRun | null;
  readonly fireTime: Date;
  /** For what is told: known once the answer is read. */
  facts(): { readonly jobName: string; readonly fireTime: Date; readonly attempt: number };
  /** @param own in a transaction of the receipt's own */
  opening(own: boolean): Statement;
  /** @param rows of `opening` */
  answerOf(rows: unknown[]): ReceiptAnswer;
  /** In a transaction whose snapshot may be older than the lease; undefined where there is no lease. */
  openStrictly?(receipt: JoinedReceipt): Promise<ReceiptAnswer>;
  closing(result: string | null, strict: boolean): readonly Statement[];
  /** @returns what is thrown when the run is no longer ours */
  refused(): Error;
}

/** Carries a receipt and its effect through a transaction. */
@Injectable()
export class ReceiptWriter {
  constructor(
    private readonly places: ReceiptPlaces,
    private readonly receipts: ReceiptRepository,
    private readonly bypasses: BypassWatch,
    private readonly keys: IdempotencyKeys,
    @Inject(INSTANCE_ID) private readonly instanceId: string,
  ) {}

  /** A receipt of an attempt: accepted while that is this process'. */
  ofRun(run: InFlightRun, key: ReceiptKey): ReceiptScript {
    const { receipts } = this;
    const { owned } = run;
    const { jobName, fireTime, attempt } = owned;
    const idempotency = this.keys.of(owned, key.entity, key.effect);
    return {
      key,
      run,
      fireTime,
      facts: () => ({ jobName, fireTime, attempt }),
      opening: (own) => receipts.begin(owned, key, idempotency, own),
      answerOf: ([row]) => receiptAnswer(row as ReceiptRow),
      async openStrictly(receipt: JoinedReceipt): Promise<ReceiptAnswer> {
        const [held] = await receipt.send([receipts.hold(owned)]);
        if (!(await receipts.isHeldByUs(owned, held!))) return { kind: 'refused' };
        const [[row]] = (await receipt.send([receipts.write(owned, key, idempotency)])) as [[ReceiptRow]];
        return receiptAnswer(row);
      },
      // A run that was held from the beginning is still ours at the end.
      closing: (result, strictly) =>
        strictly ? receipts.keep(owned, key, result) : [receipts.end(owned, key, result)],
      refused: () => this.places.refused(run, key),
    };
  }

  /** A receipt of an occurrence: accepted as long as that has a row, whoever runs it. */
  ofOccurrence(run: RunKey, key: ReceiptKey): ReceiptScript {
    const { jobName, fireTime } = run;
    const idempotency = this.keys.of(run, key.entity, key.effect);
    let attempt = 0;
    return {
      key,
      run: null,
      fireTime,
      facts: () => ({ jobName, fireTime, attempt }),
      opening: (own) => this.receipts.beginForOccurrence(run, key, this.instanceId, idempotency, own),
      answerOf([row]): ReceiptAnswer {
        attempt = Number((row as ReceiptRow).of_attempt);
        return receiptAnswer(row as ReceiptRow);
      },
      closing: (result) => this.receipts.keep(run, key, result),
      refused: () => unknownRun(jobName, fireTime),
    };
  }

  /** @param where what was given as `in` */
  async write<Result>(script: ReceiptScript, effect: Effect<Result>, where: unknown): Promise<OnceOutcome<Result>> {
    const work = this.places.makingSure(script.fireTime, async () => {
      const place = await this.places.find(where, script.key);
      return place.kind === 'own' ? this.inOwn(script, effect, place) : this.inTheirs(script, effect, place);
    });
    try {
      // Whoever ends the transaction must not do so while the effect still writes in it.
      return await (script.run && !this.places.joins(where) ? script.run.whileOurs(work) : work);
    } catch (error) {
      if (isRefusedClose(error)) throw script.refused();
      throw error;
    }
  }

  private inOwn<Result>(
    script: ReceiptScript,
    effect: Effect<Result>,
    { dataSource, slots }: ReceiptPlace & { kind: 'own' },
  ): Promise<OnceOutcome<Result>> {
    return againOnConflict(script.run, () =>
      slots.run(() =>
        inMergedTransaction(dataSource, [script.opening(true)], async (manager, [rows]) => {
          const there = this.thereOf<Result>(script, script.answerOf(rows!));
          if (there) return { closing: null, result: there };
          const result = await this.effectOf(script, effect, manager);
          return { closing: script.closing(storableJson(result), false), result: { applied: true, result } };
        }),
      ),
    );
  }

  /** Nothing is tried again here: a transaction that failed is for its owner to begin anew. */
  private inTheirs<Result>(
    script: ReceiptScript,
    effect: Effect<Result>,
    { manager }: ReceiptPlace & { kind: 'joined' },
  ): Promise<OnceOutcome<Result>> {
    return this.places.inTurn(manager, () =>
      inJoinedTransaction(manager, async (receipt): Promise<OnceOutcome<Result>> => {
        const strict = !receipt.readCommitted && script.openStrictly !== undefined;
        const answer = strict
          ? await script.openStrictly!(receipt)
          : script.answerOf((await receipt.send([script.opening(false)]))[0]!);
        const there = this.thereOf<Result>(script, answer);
        if (there) return there;
        const result = await this.effectOf(script, effect, manager);
        const closing = script.closing(storableJson(result), strict);
        if (closing.length > 0) await receipt.send(closing);
        return { applied: true, result };
      }),
    );
  }

  private thereOf<Result>(script: ReceiptScript, answer: ReceiptAnswer): OnceOutcome<Result> | null {
    if (answer.kind === 'refused') throw script.refused();
    if (answer.kind === 'external') throw mixedReceipt(script.key.entity, script.key.effect, 'onceExternal');
    return answer.kind === 'there' ? { applied: false, result: answer.result as Result | undefined } : null;
  }

  private async effectOf<Result>(
    script: ReceiptScript,
    effect: Effect<Result>,
    manager: EntityManager,
  ): Promise<Result> {
    return this.places.inside(script.key, manager, () =>
      this.bypasses.watch(script.facts(), script.key, manager, () => effect(manager)),
    );
  }
}
