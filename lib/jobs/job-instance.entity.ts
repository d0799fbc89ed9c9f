import { Column, Entity, PrimaryColumn } from 'typeorm';

/** A process that takes part, and what its code declares. It is there for as long as it says so now and then. */
@Entity({ name: 'job_instances' })
export class JobInstance {
  @PrimaryColumn('text')
  id!: string;

  /** Expression and zone of each job that its code declares, by name. */
  @Column('jsonb')
  jobs!: Record<string, [cron: string, timeZone: string]>;

  /** The handlers it has for jobs made at run time. */
  @Column('jsonb')
  handlers!: string[];

  /** Since when its event loop stands still: nothing of it goes on but its heartbeat. Null: it moves. */
  @Column('timestamptz', { name: 'blocked_since', nullable: true })
  blockedSince!: Date | null;

  /** The key of the advisory lock that it holds while it lives; null: it is judged by its leases. */
  @Column('bigint', { nullable: true })
  lifeline!: string | null;

  /** A number for the names in `jobs` and `handlers` together: the same where they are the same. */
  @Column('bigint')
  declares!: string;

  /** Its application; null: unknown, or of a release that does not say. */
  @Column('text', { nullable: true })
  application!: string | null;

  /** The versions of its time-zone data and of the library that reads them. */
  @Column('text', { nullable: true })
  tz!: string | null;

  @Column('text', { nullable: true })
  icu!: string | null;

  /** The rules of the zones that its jobs are in, by zone and year. */
  @Column('jsonb', { nullable: true })
  zones!: Record<string, Record<string, number>> | null;

  @Column('timestamptz', { name: 'started_at' })
  startedAt!: Date;

  @Column('timestamptz', { name: 'alive_until' })
  aliveUntil!: Date;
}
