import { Column, Entity, PrimaryGeneratedColumn } from 'typeorm';

/**
 * A customer's statement of one occurrence. On purpose no constraint keeps a second one out: that there is only one is
 * the receipt's doing, and the demo's verdict would see it.
 */
@Entity({ name: 'statements' })
export class Statement {
  @PrimaryGeneratedColumn()
  id!: number;

  @Column('integer', { name: 'customer_id' })
  customerId!: number;

  @Column('timestamptz', { name: 'fire_time' })
  fireTime!: Date;

  @Column('bigint', { name: 'balance_cents' })
  balanceCents!: string;

  @Column('integer')
  attempt!: number;

  @Column('timestamptz', { name: 'issued_at', default: () => 'clock_timestamp()' })
  issuedAt!: Date;
}
