import { Inject, Injectable } from '@nestjs/common';
import { ReceiptService, type CronRun } from 'nestjs-distributed-cron';
import { once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import { DataSource, type EntityManager } from 'typeorm';
import { Boundaries } from './boundaries.js';
import { Effects } from './effects.js';
import { Freezer } from './freezer.js';
import { Mails } from './mails.js';
import { Parent } from './parent.js';
import { SETTINGS } from './settings.token.js';
import type { ReplicaSettings, Step } from './settings.js';

/** Does what a job's settings say its handler does. */
@Injectable()
export class Steps {
  constructor(
    private readonly receipts: ReceiptService,
    private readonly effects: Effects,
    private readonly parent: Parent,
    private readonly freezer: Freezer,
    private readonly mails: Mails,
    private readonly boundaries: Boundaries,
    @Inject(SETTINGS) private readonly settings: ReplicaSettings,
  ) {}

  async take(steps: readonly Step[], run: CronRun, manager?: EntityManager): Promise<void> {
    for (const step of steps) await this.takeOne(step, run, manager);
  }

  private async takeOne(step: Step, run: CronRun, manager?: EntityManager): Promise<void> {
    if ('gate' in step) await this.take(await this.parent.passGate(step.gate, run), run, manager);
    else if ('effect' in step) await this.effects.write(run, step.effect, manager);
    else if ('receipt' in step) await this.receipt(step.receipt, step.inside ?? [{ effect: step.receipt }], run);
    else if ('call' in step) await this.call(step, run);
    else if ('mail' in step) await this.mails.send(run, step.mail);
    else if ('page' in step) await this.page(step.page, run);
    else if ('finish' in step) await this.finish(step.finish, run);
    else if ('bulk' in step) await this.bulk(step.bulk, step.gateFrom ?? Infinity, run);
    else if ('receiptInOwn' in step) await this.receiptInOwn(step.receiptInOwn, run);
    else if ('each' in step) await this.each(step.each, run);
    else if ('save' in step) await run.checkpoint.save(step.save);
    else if ('complete' in step) await run.complete();
    else if ('pauseMs' in step) await pause(step.pauseMs);
    else if ('blockMs' in step) block(step.blockMs);
    else if ('fail' in step) throw new Error(step.fail);
    else if ('release' in step) await run.release(step.release);
    else if ('freezeTogether' in step) await this.freezer.freezeTogether(step.freezeTogether);
    else if (!run.signal.aborted) await once(run.signal, 'abort');
  }

  private async call(
    { call, to, inDoubt, before = [], after = [] }: Extract<Step, { readonly call: string }>,
    run: CronRun,
  ): Promise<void> {
    const post = async (key: string, signal: AbortSignal) => {
      await this.take(before, run);
      const response = await fetch(`${to}/${run.jobName}/${call}`, {
        method: 'POST',
        headers: { 'Idempotency-Key': key },
        signal,
      });
      const answer: unknown = await response.json();
      await this.take(after, run);
      return answer;
    };
    await this.receipts.onceExternal(call, post, { inDoubt });
  }

  private async receipt(entity: string, inside: readonly Step[], run: CronRun): Promise<void> {
    await this.boundaries.reach('before the effect', run, entity);
    await this.receipts.once(entity, async (manager) => {
      await this.boundaries.reach('inside the effect', run, entity);
      await this.take(inside, run, manager);
      await this.boundaries.reach('before its close', run, entity);
      this.boundaries.atCommit('before its commit', manager, run, entity);
    });
    await this.boundaries.reach('after its commit', run, entity);
  }

  private async receiptInOwn(entity: string, run: CronRun): Promise<void> {
    const own = await new DataSource({ type: 'postgres', url: this.settings.url }).initialize();
    await this.receipts.once(entity, (manager) => this.effects.write(run, entity, manager), { in: own });
    await own.destroy();
  }

  private async each(count: number, run: CronRun): Promise<void> {
    const entities = Array.from({ length: count }, (_, index) => index);
    await this.receipts.onceEach(entities, (entity, manager) => this.effects.write(run, String(entity), manager));
  }

  private async page(page: string, run: CronRun): Promise<void> {
    const done = (await run.checkpoint.get<string[]>()) ?? [];
    if (done.includes(page)) return;
    const write = async (manager: EntityManager) => {
      await this.effects.write(run, page, manager);
      this.boundaries.atCommit('before the step’s commit', manager, run, page);
    };
    await run.transaction(write, { checkpoint: [...done, page] });
    await this.boundaries.reach('after the step’s commit', run, page);
  }

  private async finish(entity: string, run: CronRun): Promise<void> {
    const write = async (manager: EntityManager) => {
      await this.effects.write(run, entity, manager);
      this.boundaries.atCommit('before the completing commit', manager, run);
    };
    await run.transaction(write, { complete: true });
    await this.boundaries.reach('after the completing commit', run);
  }

  private async bulk(count: number, gateFrom: number, run: CronRun): Promise<void> {
    const entities = Array.from({ length: count }, (_, index) => index);
    const effect = async (batch: number[], manager: EntityManager) => {
      await this.effects.writeAll(run, batch.map(String), manager);
      if (batch.some((entity) => entity >= gateFrom)) await this.parent.passGate('bulk', run);
    };
    await this.receipts.onceBatch(entities, effect, { batch: 100, concurrency: 2 });
  }
}

function block(millis: number): void {
  const end = performance.now() + millis;
  while (performance.now() < end);
}
