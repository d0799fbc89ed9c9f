import { Injectable } from '@nestjs/common';
import { idempotencyKey } from '../../domain/effects/idempotency-key.js';
import type { RunKey } from '../../domain/runs/run.js';
import { ReceiptSecretStore } from '../../store/receipts/receipt-secret.store.js';

/** Makes the keys of effects. */
@Injectable()
export class IdempotencyKeys {
  private known: string | null = null;

  constructor(private readonly store: ReceiptSecretStore) {}

  /** Once, before anything runs. */
  async read(): Promise<void> {
    this.known = await this.store.read();
  }

  get secret(): string {
    if (this.known === null) throw new Error('The secret of idempotency keys has not been read.');
    return this.known;
  }

  of(run: RunKey, entity: string, effect: string): string {
    return idempotencyKey(this.secret, run, entity, effect);
  }
}
