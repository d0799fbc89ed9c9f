import { Column, Entity, PrimaryGeneratedColumn } from 'typeorm';

@Entity({ name: 'receivables_reports' })
export class ReceivablesReport {
  @PrimaryGeneratedColumn()
  id!: number;

  @Column('timestamptz', { name: 'fire_time' })
  fireTime!: Date;

  @Column('integer')
  attempt!: number;

  /** How long the event loop stood still. */
  @Column('integer', { name: 'blocked_ms' })
  blockedMs!: number;

  @Column('bigint', { name: 'expected_cents' })
  expectedCents!: string;
}
