import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { storableJson } from '../errors/stored-error.js';
import { MixedReceiptError } from '../errors/receipt.errors.js';
import { PartitionStore } from '../database/partition.store.js';
import type { ReceiptAnswer, ReceiptKey } from './receipt.store.js';
import { inJoinedTransaction, type JoinedReceipt } from '../database/transactions.js';
import { inMergedTransaction } from '../database/transactions.js';
import { isRefusedClose } from './receipt.store.js';
import type { Statement } from '../database/transactions.js';
import { againOnConflict } from './again.js';
import { BypassWatch } from './bypass-watch.js';
import type { InFlightRun } from '../runs/in-flight-runs.js';
import { ReceiptPlaces, type ReceiptPlace } from './receipt-places.js';

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
    private readonly partitions: PartitionStore,
    private readonly bypasses: BypassWatch,
  ) {}

  /** @param where what was given as `in` */
  async write<Result>(script: ReceiptScript, effect: Effect<Result>, where: unknown): Promise<OnceOutcome<Result>> {
    const work = this.partitions.makingSure(
      () => [script.fireTime],
      async () => {
        const place = await this.places.find(where, script.key);
        return place.kind === 'own' ? this.inOwn(script, effect, place) : this.inTheirs(script, effect, place);
      },
    );
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
    if (answer.kind === 'external') throw new MixedReceiptError(script.key.entity, script.key.effect, 'onceExternal');
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
