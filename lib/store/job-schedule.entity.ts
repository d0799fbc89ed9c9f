import { Column, Entity, PrimaryColumn } from 'typeorm';

/** A job as the code last declared it, with what operators decided about it. */
@Entity({ name: 'job_schedule' })
export class JobSchedule {
  @PrimaryColumn('text')
  name!: string;

  @Column('text')
  cron!: string;

  @Column('text', { name: 'time_zone' })
  timeZone!: string;

  @Column('text', { nullable: true })
  owner!: string | null;

  @Column('jsonb')
  policies!: Record<string, unknown>;

  @Column('boolean', { default: true })
  enabled!: boolean;

  @Column('timestamptz', { name: 'paused_at', nullable: true })
  pausedAt!: Date | null;

  @Column('timestamptz', { name: 'paused_until', nullable: true })
  pausedUntil!: Date | null;

  @Column('text', { name: 'paused_by', nullable: true })
  pausedBy!: string | null;

  @Column('text', { name: 'paused_reason', nullable: true })
  pausedReason!: string | null;

  /** The expression holds from here; nothing before it is ever due. */
  @Column('timestamptz', { name: 'effective_from' })
  effectiveFrom!: Date;

  /**
   * Every due occurrence up to here has a row. Written now and then, not for each occurrence, so it is a lower bound:
   * from here on, due fire times are compared with rows.
   */
  @Column('timestamptz', { name: 'decided_until' })
  decidedUntil!: Date;

  @Column('timestamptz', { name: 'declared_at' })
  declaredAt!: Date;
}
