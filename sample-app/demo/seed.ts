import type { DataSource } from 'typeorm';
import { Customer } from '../src/customers/customer.entity.js';
import { Invoice } from '../src/invoices/invoice.entity.js';

const FIRST = ['Amara', 'Bruno', 'Chiyo', 'Dilnaz', 'Edda', 'Farid', 'Greta', 'Hugo'];
const LAST = ['Okafor', 'Lindqvist', 'Tanaka', 'Moreau', 'Novak', 'Silva'];

/** Every mailing goes to so many. */
export const CUSTOMERS = FIRST.length * LAST.length;

/** The same customers and invoices each time. */
export async function seed(dataSource: DataSource): Promise<void> {
  const customers = Array.from({ length: CUSTOMERS }, (_, index) => customer(index));
  await dataSource.getRepository(Customer).insert(customers);
  await dataSource
    .getRepository(Invoice)
    .insert(customers.flatMap(({ id }) => [0, 1, 2].map((nth) => invoice(id, nth))));
}

function customer(index: number): Customer {
  const first = FIRST[index % FIRST.length]!;
  const last = LAST[Math.floor(index / FIRST.length)]!;
  return { id: index + 1, name: `${first} ${last}`, email: `${first}.${last}@customers.example`.toLowerCase() };
}

function invoice(customerId: number, nth: number): Invoice {
  return {
    number: `R-${customerId}-${nth + 1}`,
    customerId,
    amountCents: 1_900 + ((customerId * 7_919 + nth * 104_729) % 90_000),
    dueOn: `2026-0${nth + 1}-15`,
    paidAt: nth === 0 ? new Date('2026-01-10T09:00:00Z') : null,
  };
}
