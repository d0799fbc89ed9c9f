import type { RunKey, RunStatus } from '../../domain/runs/run.js';
import type { StoredError } from '../../domain/runs/stored-error.js';
import type { InDoubtWhich } from '../../options/in-doubt-options.js';
import type { Actor } from '../operations/dead-letter.store.js';
import { queryOn, type Query } from '../connection/query.js';
import type { ReceiptKey } from './receipt.store.js';
import type { SchedulerDatabase } from '../scheduler-database.js';
import type { Tables } from '../tables.js';

/** A call outside the database that nobody knows the end of. */
export interface EffectInDoubt extends RunKey, ReceiptKey {
  /** The one that made the call, and on which instance. */
  readonly attempt: number;
  readonly instanceId: string;
  /** When the call was about to be made. */
  readonly openedAt: Date;
  /** What the receiver knows it by. */
  readonly idempotencyKey: string;
  /** `cut off`: its process ended, or lost its run, before the answer was written. `call failed`: see `error`. */
  readonly why: 'cut off' | 'call failed';
  readonly error: StoredError | null;
  /** How its run stands; null when that row is gone. */
  readonly runStatus: RunStatus | null;
}

/** What a person has decided about. */
export interface ResolvedEffects {
  readonly effects: readonly (RunKey & ReceiptKey)[];
  /** How many more there are. */
  readonly left: number;
}

/**
 * SQL for: of a `receipt` and its `run`, nobody will find out by itself what came of the call. What is open goes on with its run, while
 * that has an attempt or will have one, and with the pages under way of one whose tick has failed for good.
 */
export const inDoubt = (tables: Tables): string =>
  `(receipt.state = 'in_doubt' or receipt.state = 'open' and coalesce(run.status, 'gone') not in ('queued', 'running', 'fanned_out', 'failed', 'orphaned') and ${noPageOf(tables, 'receipt')})`;

/** SQL for: no page of the occurrence is under way, given the alias of a table. */
const noPageOf = ({ jobPages }: Tables, alias: string): string =>
  `not exists (select from ${jobPages} page where page.job_name = ${alias}.job_name and page.fire_time = ${alias}.fire_time and page.status = 'running')`;

/** SQL for: one that the first seven parameters ask for. */
const matches = (tables: Tables): string => `${inDoubt(tables)}
       and   ($1::text is null or receipt.job_name = $1)
       and   ($2::timestamptz is null or receipt.fire_time = $2)
       and   ($3::timestamptz is null or receipt.fire_time >= $3)
       and   ($4::timestamptz is null or receipt.fire_time <= $4)
       and   ($5::text is null or receipt.entity = $5)
       and   ($6::text is null or receipt.effect = $6)
       and   ($7::text is null or receipt.idempotency_key = $7)`;

/** Finds calls that are in doubt, and keeps what a person says came of them. */
export class InDoubtStore {
  private readonly query: Query;

  constructor(private readonly database: SchedulerDatabase) {
    this.query = queryOn(database.coordination);
  }

  /** The oldest first. */
  find(which: InDoubtWhich, limit: number): Promise<EffectInDoubt[]> {
    const { tables } = this.database;
    const { receipts, jobRuns } = tables;
    return this.query<EffectInDoubt>(
      `select receipt.job_name as "jobName", receipt.fire_time as "fireTime", receipt.entity, receipt.effect, receipt.attempt,
              receipt.claimed_by as "instanceId", receipt.opened_at as "openedAt", receipt.idempotency_key as "idempotencyKey",
              case when receipt.error is null then 'cut off' else 'call failed' end as why, receipt.error, run.status as "runStatus"
       from   ${receipts} receipt
       left   join ${jobRuns} run on run.job_name = receipt.job_name and run.fire_time = receipt.fire_time
       where  receipt.state in ('open', 'in_doubt')
       and    ${matches(tables)}
       order  by receipt.opened_at, receipt.job_name, receipt.entity, receipt.effect
       limit  $8`,
      [...parametersOf(which), limit],
    );
  }

  /**
   * Keeps what a person says came of them, and records it for each. One whose call is made again, or answered, right now is
   * not changed.
   * @param answer JSON of what the receiver answered; null for nothing
   */
  async resolve(which: InDoubtWhich, limit: number, as: 'done' | 'undone', answer: string | null, { by, reason }: Actor): Promise<ResolvedEffects> {
    const { tables } = this.database;
    const { receipts, jobRuns, jobActions } = tables;
    const [row] = await this.query<{ changed: [string, string, string, string][]; left_over: number }>(
      `with matching as materialized (
         select receipt.job_name, receipt.fire_time, receipt.entity, receipt.effect, receipt.state, receipt.attempt
         from   ${receipts} receipt
         left   join ${jobRuns} run on run.job_name = receipt.job_name and run.fire_time = receipt.fire_time
         where  receipt.state in ('open', 'in_doubt')
         and    ${matches(tables)}
       ),
       picked as materialized (
         select receipt.job_name, receipt.fire_time, receipt.entity, receipt.effect
         from   ${receipts} receipt
         join   matching using (job_name, fire_time, entity, effect)
         where  receipt.state = matching.state
         and    receipt.attempt = matching.attempt
         order  by receipt.fire_time, receipt.job_name, receipt.entity, receipt.effect
         limit  $8
         for    update of receipt
       ),
       changed as (
         update ${receipts} receipt
         set    state = $9,
                result = $10::jsonb,
                closed_at = clock_timestamp(),
                resolved_by = $11,
                resolved_reason = $12
         from   picked
         where  receipt.job_name = picked.job_name
         and    receipt.fire_time = picked.fire_time
         and    receipt.entity = picked.entity
         and    receipt.effect = picked.effect
         returning receipt.job_name, receipt.fire_time, receipt.entity, receipt.effect, receipt.idempotency_key
       ),
       recorded as (
         insert into ${jobActions} (action, job_name, fire_time, actor, reason, details)
         select 'resolve in doubt', job_name, fire_time, $11, $12,
                jsonb_build_object('entity', entity, 'effect', effect, 'as', $9::text, 'idempotencyKey', idempotency_key)
         from   changed
         order  by fire_time, job_name, entity, effect
       )
       select coalesce((select jsonb_agg(jsonb_build_array(job_name, fire_time, entity, effect) order by fire_time, job_name, entity, effect) from changed), '[]') as changed,
             (select count(*)::integer from matching) - (select count(*)::integer from changed) as left_over`,
      [...parametersOf(which), limit, as, answer, by, reason],
    );
    const effects = row!.changed.map(([jobName, fireTime, entity, effect]) => ({ jobName, fireTime: new Date(fireTime), entity, effect }));
    return { effects, left: row!.left_over };
  }

  /**
   * Parks the calls of runs that have ended without their answer: no attempt follows that would find them. The run is held: one that
   * is replayed at this moment may have opened the receipt anew.
   * @returns those that were, by this instance
   */
  parkEnded(limit: number): Promise<(RunKey & ReceiptKey & Pick<EffectInDoubt, 'attempt' | 'error'>)[]> {
    const { tables } = this.database;
    const { receipts, jobRuns } = tables;
    return this.query(
      `with ended as materialized (
         select receipt.job_name, receipt.fire_time, receipt.entity, receipt.effect
         from   ${receipts} receipt
         join   ${jobRuns} run on run.job_name = receipt.job_name and run.fire_time = receipt.fire_time
         where  receipt.state = 'open'
         and    run.status in ('done', 'dead', 'cancelled', 'skipped')
         and    ${noPageOf(tables, 'receipt')}
         order  by receipt.fire_time, receipt.job_name, receipt.entity, receipt.effect
         limit  $1
         for    update of receipt skip locked
         for    share of run skip locked
       )
       update ${receipts} receipt
       set    state = 'in_doubt'
       from   ended
       where  receipt.job_name = ended.job_name
       and    receipt.fire_time = ended.fire_time
       and    receipt.entity = ended.entity
       and    receipt.effect = ended.effect
       and    receipt.state = 'open'
       returning receipt.job_name as "jobName", receipt.fire_time as "fireTime", receipt.entity, receipt.effect, receipt.attempt, receipt.error`,
      [limit],
    );
  }
}

function parametersOf({ jobName, fireTime, from, to, entity, effect, idempotencyKey }: InDoubtWhich): unknown[] {
  return [jobName, fireTime?.toISOString() ?? null, from?.toISOString() ?? null, to?.toISOString() ?? null, entity, effect, idempotencyKey];
}
