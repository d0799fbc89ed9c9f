import { Injectable } from '@nestjs/common';
import { ReceiptService, type CronRun } from 'nestjs-distributed-cron';
import { once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import type { EntityManager } from 'typeorm';
import { Effects } from './effects.js';
import { Freezer } from './freezer.js';
import { Parent } from './parent.js';
import type { Step } from './settings.js';

/** Does what a job's settings say its handler does. */
@Injectable()
export class Steps {
  constructor(
    private readonly receipts: ReceiptService,
    private readonly effects: Effects,
    private readonly parent: Parent,
    private readonly freezer: Freezer,
  ) {}

  async take(steps: readonly Step[], run: CronRun, manager?: EntityManager): Promise<void> {
    for (const step of steps) await this.takeOne(step, run, manager);
  }

  private async takeOne(step: Step, run: CronRun, manager?: EntityManager): Promise<void> {
    if ('gate' in step) await this.take(await this.parent.passGate(step.gate, run), run, manager);
    else if ('effect' in step) await this.effects.write(run, step.effect, manager);
    else if ('receipt' in step) await this.receipt(step.receipt, step.inside ?? [{ effect: step.receipt }], run);
    else if ('bulk' in step) await this.bulk(step.bulk, step.gateFrom ?? Infinity, run);
    else if ('pauseMs' in step) await pause(step.pauseMs);
    else if ('blockMs' in step) block(step.blockMs);
    else if ('fail' in step) throw new Error(step.fail);
    else if ('freezeTogether' in step) await this.freezer.freezeTogether(step.freezeTogether);
    else if (!run.signal.aborted) await once(run.signal, 'abort');
  }

  private async receipt(entity: string, inside: readonly Step[], run: CronRun): Promise<void> {
    await this.receipts.once(entity, (manager) => this.take(inside, run, manager));
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
