import { Column, Entity, Index, PrimaryGeneratedColumn } from 'typeorm';

/** A mail that must go out. It is written with its statement and marked when the mail server has taken it. */
@Entity({ name: 'outbox' })
export class OutboxMail {
  @PrimaryGeneratedColumn()
  id!: number;

  /** The run's idempotency key for this customer: the same on every attempt. */
  @Index()
  @Column('text', { name: 'message_id' })
  messageId!: string;

  @Column('integer', { name: 'customer_id' })
  customerId!: number;

  @Column('timestamptz', { name: 'fire_time' })
  fireTime!: Date;

  @Column('text')
  recipient!: string;

  @Column('text')
  body!: string;

  @Column('timestamptz', { name: 'sent_at', nullable: true })
  sentAt!: Date | null;
}
