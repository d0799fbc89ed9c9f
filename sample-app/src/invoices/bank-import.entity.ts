import { Column, Entity, PrimaryGeneratedColumn } from 'typeorm';

/** What the bank's statement of one occurrence said. */
@Entity({ name: 'bank_imports' })
export class BankImport {
  @PrimaryGeneratedColumn()
  id!: number;

  @Column('timestamptz', { name: 'fire_time' })
  fireTime!: Date;

  /** The attempt that succeeded. */
  @Column('integer')
  attempt!: number;

  @Column('integer')
  payments!: number;
}
