import { Column, Entity, Index, PrimaryColumn } from 'typeorm';

@Entity({ name: 'invoices' })
export class Invoice {
  @PrimaryColumn('text')
  number!: string;

  @Index()
  @Column('integer', { name: 'customer_id' })
  customerId!: number;

  @Column('integer', { name: 'amount_cents' })
  amountCents!: number;

  @Column('date', { name: 'due_on' })
  dueOn!: string;

  @Column('timestamptz', { name: 'paid_at', nullable: true })
  paidAt!: Date | null;
}
