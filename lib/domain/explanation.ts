import type { FlagOffPolicy } from './job-definition.js';
import type { RunStatus, RunTrigger } from './run.js';
import { explainAbsence } from './explained-absence.js';

/** One start of a handler. */
export interface ExplainedStart {
  readonly attempt: number;
  readonly instanceId: string | null;
  readonly startedAt: Date | null;
  readonly finishedAt: Date | null;
  readonly status: RunStatus;
  readonly error: string | null;
}

/** The row of an occurrence, or of the gap that covers it. */
export interface ExplainedRow {
  readonly fireTime: Date;
  readonly status: RunStatus;
  readonly trigger: RunTrigger;
  readonly reason: string | null;
  readonly starts: readonly ExplainedStart[];
  readonly leaseUntil: Date | null;
  readonly nextAttemptAt: Date | null;
  readonly requestedBy: string | null;
  readonly cancelRequestedAt: Date | null;
  /** The first fire time of a gap, and how many it covers. */
  readonly gap: { readonly from: Date; readonly count: number } | null;
}

/** What is known about the job as the database has it. */
export interface ExplainedJob {
  readonly effectiveFrom: Date;
  /** Every due occurrence up to here has a row; a lower bound. */
  readonly decidedUntil: Date;
  readonly enabled: boolean;
  readonly paused: { readonly by: string | null; readonly reason: string | null; readonly since: Date; readonly until: Date | null } | null;
  readonly flag: string | null;
  readonly flagOff: FlagOffPolicy;
  /** The table has it as off. */
  readonly flagIsOff: boolean;
  /** Its concurrency group, when that has no place left. */
  readonly fullGroup?: { readonly name: string; readonly limit: number } | null;
  readonly yieldsTo: string | null;
  readonly removedAt: Date | null;
  /** How many live instances can run it. */
  readonly instances: number;
}

/** All that an explanation is made of, at one moment of the database's clock. */
export interface ExplanationFacts {
  readonly jobName: string;
  readonly fireTime: Date;
  readonly now: Date;
  readonly job: ExplainedJob | null;
  readonly row: ExplainedRow | null;
  /** Whether the schedule has this fire time, and those around it; null when the schedule cannot be read here. */
  readonly schedule: { readonly fires: boolean; readonly before: Date | null; readonly after: Date | null } | null;
  /** Runs of the job that were under way while this one was. */
  readonly beside: readonly Date[];
  /** Occurrences that were skipped because this one was under way. */
  readonly skippedFor: readonly Date[];
  /** The run of the job that is under way now, when it is another one. */
  readonly inTheWay: { readonly fireTime: Date; readonly instanceId: string } | null;
}

/** What became of a planned time. */
export type ExplanationKind =
  | 'done'
  | 'running'
  | 'waiting'
  | 'dead'
  | 'cancelled'
  | 'skipped'
  /** Due, and without a decision yet. */
  | 'undecided'
  | 'not due yet'
  /** No fire time of the job's schedule as it is now. */
  | 'no occurrence'
  /** Before the schedule holds: never due. */
  | 'before the schedule'
  | 'unknown job';

/** The answers to an operator's questions about one planned time. */
export interface Explanation {
  readonly jobName: string;
  readonly fireTime: Date;
  readonly kind: ExplanationKind;
  /** How many handlers were started for it: one for each attempt. */
  readonly starts: readonly ExplainedStart[];
  /** What kept, or keeps, a second one from starting. */
  readonly secondStart: string;
  /** Whether it overlapped other runs of its job. */
  readonly overlap: string;
  readonly beside: readonly Date[];
  readonly skippedFor: readonly Date[];
  /** What to do to run this one period again. */
  readonly rerun: string;
  /** Why it did not run, or does not yet; null when it did. */
  readonly why: string | null;
  /** The fire times of the schedule around it. */
  readonly nearest: { readonly before: Date | null; readonly after: Date | null } | null;
  /** All of it, for people. */
  readonly text: string;
}

/** Answers in the order in which operators ask. */
export function explanationOf(facts: ExplanationFacts): Explanation {
  const { jobName, fireTime, row, beside, skippedFor, schedule } = facts;
  const kind = kindOf(facts);
  const starts = row?.starts ?? [];
  const why = kind === 'done' || kind === 'running' ? null : explainAbsence(facts, kind);
  const answers = { secondStart: secondStart(facts), overlap: overlapOf(facts), rerun: rerun(facts, kind) };
  const nearest = schedule && { before: schedule.before, after: schedule.after };
  const text = [`${jobName} of ${iso(fireTime)}: ${kind}.`, startsInWords(starts), why, answers.secondStart, answers.overlap, answers.rerun].filter((part) => part !== null).join('\n');
  return { jobName, fireTime, kind, starts, ...answers, beside, skippedFor, why, nearest, text };
}

function kindOf({ row, job, schedule, fireTime, now }: ExplanationFacts): ExplanationKind {
  if (row) {
    const { status } = row;
    return status === 'queued' || status === 'failed' || status === 'orphaned' ? 'waiting' : status;
  }
  if (!job) return 'unknown job';
  if (schedule && !schedule.fires) return 'no occurrence';
  if (fireTime < job.effectiveFrom) return 'before the schedule';
  return fireTime > now ? 'not due yet' : 'undecided';
}

function startsInWords(starts: readonly ExplainedStart[]): string {
  if (starts.length === 0) return 'Runners started for it: none.';
  const each = starts.map(({ attempt, instanceId, startedAt, finishedAt, status, error }) => {
    const end = finishedAt ? `, ${status} ${iso(finishedAt)}` : ', under way';
    return `attempt ${attempt} on ${instanceId ?? 'an unknown instance'} ${iso(startedAt)}${end}${error ? ` (${error})` : ''}`;
  });
  const never = starts.length > 1 ? ', one after the other' : '';
  return `Runners started for it: ${starts.length}${never}: ${each.join('; ')}.`;
}

function secondStart({ row }: ExplanationFacts): string {
  if (!row) return 'Nothing has been claimed for it; the unique key (job_name, fire_time) lets one instance win.';
  const last = row.starts.at(-1);
  const key = 'the unique key (job_name, fire_time) of job_runs: the row is there, and every other claim finds it';
  if (row.status === 'running' && last) {
    return `A second start is blocked by ${key}; attempt ${last.attempt} of ${last.instanceId} holds its lease until ${iso(row.leaseUntil)}, and only after that may the next attempt begin.`;
  }
  const fence = last ? `. What attempt ${last.attempt} or one before it still writes is refused: each write names its attempt` : '';
  return `A second start is blocked by ${key}${fence}.`;
}

function overlapOf({ row, beside, skippedFor }: ExplanationFacts): string {
  if (!row || row.starts.length === 0) return 'It overlapped nothing: it was not started.';
  const skipped = skippedFor.length > 0 ? ` Skipped because of it: ${list(skippedFor)}.` : '';
  if (beside.length === 0) return `It did not overlap another run of its job.${skipped}`;
  return `It overlapped ${list(beside)}.${skipped}`;
}

function rerun({ jobName, fireTime, row }: ExplanationFacts, kind: ExplanationKind): string {
  const of = `${JSON.stringify(jobName)}, new Date("${iso(fireTime)}")`;
  const backfill = (options: string) => `SchedulerService.backfill(${of}, new Date("${iso(fireTime)}")${options})`;
  switch (kind) {
    case 'running':
      return `To run it again: wait for its end, or cancel(${of}, { by }) first.`;
    case 'waiting':
      return 'Nothing needs to be done: it is started by itself. To end it instead: cancel.';
    case 'dead':
      return `To run it again: replay(${of}, { by }); what its receipts have done is not done twice.`;
    case 'done':
      return row?.trigger === 'manual'
        ? 'To run it again: runNow.'
        : `To run this period again: ${backfill(', { replay: true }')}; what its receipts have done is not done twice. For a run that has nothing to do with it: runNow.`;
    case 'cancelled':
    case 'skipped':
    case 'undecided':
      return row?.trigger === 'manual' ? 'To run it after all: runNow.' : `To run this period after all: ${backfill('')}.`;
    case 'not due yet':
      return 'Nothing needs to be done: it is started when it is due.';
    default:
      return 'There is nothing to run again; runNow runs the job with an identity of its own.';
  }
}

function list(instants: readonly Date[]): string {
  return instants.map(iso).join(', ');
}

function iso(instant: Date | null): string {
  return instant === null ? 'never' : instant.toISOString();
}
