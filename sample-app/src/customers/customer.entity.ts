import { Column, Entity, PrimaryColumn } from 'typeorm';

@Entity({ name: 'customers' })
export class Customer {
  @PrimaryColumn('integer')
  id!: number;

  @Column('text')
  name!: string;

  @Column('text')
  email!: string;
}
