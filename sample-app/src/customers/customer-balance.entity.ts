import { Column, Entity, PrimaryColumn } from 'typeorm';

/** What a customer owes, worked out beforehand: a cache in the database. */
@Entity({ name: 'customer_balances' })
export class CustomerBalance {
  @PrimaryColumn('integer', { name: 'customer_id' })
  customerId!: number;

  @Column('bigint', { name: 'balance_cents' })
  balanceCents!: string;

  @Column('timestamptz', { name: 'refreshed_at' })
  refreshedAt!: Date;
}
