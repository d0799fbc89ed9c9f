import { Column, Entity, PrimaryColumn } from 'typeorm';
import type { StoredError } from '../errors/stored-error.js';

/**
 * Where a receipt stands. One of an effect in the database is only ever `done`. One of a call is `open` from before it
 * until its answer is written; `in_doubt`: a person has to find out; `undone`: it surely did not happen.
 */
export type ReceiptState = 'open' | 'done' | 'in_doubt' | 'undone';

/**
 * Durable proof that one effect for one entity in one occurrence was done; for one outside the database, how it stands.
 */
@Entity({ name: 'receipts' })
export class Receipt {
  @PrimaryColumn('text', { name: 'job_name' })
  jobName!: string;

  @PrimaryColumn('timestamptz', { name: 'fire_time' })
  fireTime!: Date;

  @PrimaryColumn('text')
  entity!: string;

  @PrimaryColumn('text', { default: 'default' })
  effect!: string;

  @Column('text', { default: 'done' })
  state!: ReceiptState;

  @Column('integer')
  attempt!: number;

  @Column('text', { name: 'claimed_by' })
  claimedBy!: string;

  @Column('text', { name: 'idempotency_key' })
  idempotencyKey!: string;

  /** What the effect returned, when it was JSON; later attempts get it instead of a second effect. */
  @Column('jsonb', { nullable: true })
  result!: unknown;

  @Column('timestamptz', { name: 'created_at', default: () => 'clock_timestamp()' })
  createdAt!: Date;

  /** When the last call was about to be made; null for an effect in the database. */
  @Column('timestamptz', { name: 'opened_at', nullable: true })
  openedAt!: Date | null;

  /** Since when it is known what came of the call. */
  @Column('timestamptz', { name: 'closed_at', nullable: true })
  closedAt!: Date | null;

  /** What the last call threw, where it did. */
  @Column('jsonb', { nullable: true })
  error!: StoredError | null;

  /** Who decided what came of a call that was in doubt, and why. */
  @Column('text', { name: 'resolved_by', nullable: true })
  resolvedBy!: string | null;

  @Column('text', { name: 'resolved_reason', nullable: true })
  resolvedReason!: string | null;
}
