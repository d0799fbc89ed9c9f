import { DECIDED_AS } from '../catch-up/backfill-plan.js';
import type { PageProgress } from '../fan-out/page.js';
import type {
  CallInDoubt,
  ExplainedJob,
  ExplainedStart,
  Explanation,
  ExplanationFacts,
  ExplanationKind,
} from './explanation-facts.js';
import { formatDuration } from '../options/duration.js';

/** What the reason of a row begins with that a person had begin again. */
const REPLAYED = 'replayed by ';

/** Who makes use of a checkpoint. */
const RESUMES: Partial<Record<ExplanationKind, string>> = {
  done: 'a replay of it begins anew',
  running: 'another attempt would resume from there',
  waiting: 'its next attempt resumes from there',
};

/** Answers in the order in which operators ask. */
export function explanationOf(facts: ExplanationFacts): Explanation {
  const { jobName, fireTime, row, beside, skippedFor, schedule, inDoubt = [] } = facts;
  const kind = kindOf(facts);
  const starts = row?.starts ?? [];
  const why = kind === 'done' || kind === 'running' || kind === 'fanned_out' ? null : explainAbsence(facts, kind);
  const answers = {
    checkpoint: checkpointInWords(facts, kind),
    secondStart: secondStart(facts),
    overlap: overlapOf(facts),
    rerun: rerun(facts, kind),
  };
  const nearest = schedule && { before: schedule.before, after: schedule.after };
  const text = [
    `${jobName} of ${iso(fireTime)}: ${kind}.`,
    startsInWords(starts),
    pagesInWords(row?.pages),
    why,
    answers.checkpoint,
    answers.secondStart,
    answers.overlap,
    doubts(inDoubt),
    answers.rerun,
  ]
    .filter((part) => part !== null)
    .join('\n');
  return {
    jobName,
    fireTime,
    kind,
    starts,
    ...answers,
    beside,
    skippedFor,
    why,
    pages: row?.pages ?? null,
    inDoubt,
    nearest,
    text,
  };
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
  const each = starts.map(({ attempt, instanceId, startedAt, finishedAt, status, error, reason }) => {
    const end = finishedAt ? `, ${status === 'queued' ? 'ended' : status} ${iso(finishedAt)}` : ', under way';
    // The reason of the others is in their error.
    const again = reason && (status === 'queued' || reason.startsWith(REPLAYED)) ? `, ${reason}` : '';
    return `attempt ${attempt} on ${instanceId ?? 'an unknown instance'} ${iso(startedAt)}${end}${error ? ` (${error})` : ''}${again}`;
  });
  const never = starts.length > 1 ? ', one after the other' : '';
  return `Runners started for it: ${starts.length}${never}: ${each.join('; ')}.`;
}

function checkpointInWords({ row }: ExplanationFacts, kind: ExplanationKind): string | null {
  if (row?.checkpoint == null) return null;
  return `Its handler has saved the checkpoint ${row.checkpoint}; ${RESUMES[kind] ?? 'a replay of it resumes from there'}.`;
}

function pagesInWords(pages: PageProgress | null | undefined): string | null {
  if (!pages) return null;
  const { total, ...counts } = pages;
  const others = Object.entries(counts).filter(([status, count]) => status !== 'done' && count > 0);
  return `Fanned out into ${total} pages: ${[`${counts.done} done`, ...others.map(([status, count]) => `${count} ${status}`)].join(', ')}.`;
}

function secondStart({ row, job, fireTime }: ExplanationFacts): string {
  if (!row && !job) return 'Nothing starts for a job that is not there.';
  if (row && row.fireTime.getTime() !== fireTime.getTime())
    return `It has no row of its own: that of ${iso(row.fireTime)} stands for it, and what is decided is not claimed.`;
  if (!row) return 'Nothing has been claimed for it; the unique key (job_name, fire_time) lets one instance win.';
  const last = row.starts.at(-1);
  const key = 'the unique key (job_name, fire_time) of job_runs: the row is there, and every other claim finds it';
  if (row.status === 'running' && last) {
    const until = row.hasLifeline ? 'and only after that, or when its liveness lock is gone,' : 'and only after that';
    return `A second start is blocked by ${key}; attempt ${last.attempt} of ${last.instanceId} holds its lease until ${iso(row.leaseUntil)}, ${until} may the next attempt begin.`;
  }
  const fence = last
    ? `. What attempt ${last.attempt} or one before it still writes is refused: each write names its attempt`
    : '';
  return `A second start is blocked by ${key}${fence}.`;
}

function overlapOf({ row, beside, skippedFor }: ExplanationFacts): string {
  if (row?.status === 'skipped' && beside.length > 0)
    return `It overlapped nothing: it was not started, for ${list(beside)} was under way.`;
  if (!row || row.starts.length === 0) return 'It overlapped nothing: it was not started.';
  const skipped = skippedFor.length > 0 ? ` Skipped because of it: ${list(skippedFor)}.` : '';
  if (beside.length === 0) return `It did not overlap another run of its job.${skipped}`;
  return `It overlapped ${list(beside)}.${skipped}`;
}

function doubts(calls: readonly CallInDoubt[]): string | null {
  if (calls.length === 0) return null;
  const each = calls.map(({ entity, effect, attempt }) => `${entity} (${effect}, attempt ${attempt})`);
  return `In doubt, for its answer was never written: the call for ${each.join(', ')}. Ask whoever was called, then say what came of it: resolveInDoubt.`;
}

function rerun({ jobName, fireTime, now, job, row, elsewhere }: ExplanationFacts, kind: ExplanationKind): string {
  const at = `new Date("${iso(fireTime)}")`;
  const of = `${JSON.stringify(jobName)}, ${at}`;
  // What was not run under a former name is the new one's to run.
  const backfill = (options: string) =>
    `SchedulerService.backfill(${JSON.stringify(job?.yieldsTo ?? jobName)}, ${at}, ${at}${options})`;
  const former = elsewhere ?? (row?.reason?.startsWith(DECIDED_AS) ? row.reason.slice(DECIDED_AS.length) : null);
  const replay = `To run it again: replay(${of}, { by }); what its receipts have done is not done twice.`;
  if (job?.removedAt && kind !== 'running') {
    if (kind === 'waiting') return 'Nothing needs to be done: it will be cancelled, for the job was removed.';
    return 'Nothing of it runs any more: the job was removed. To run it all the same, make the job again first (JobRegistry.add).';
  }
  switch (kind) {
    case 'running':
    case 'fanned_out':
      return `To run it again: wait for its end, or cancel(${of}, { by }) first.`;
    case 'waiting':
      return 'Nothing needs to be done: it is started by itself. To end it instead: cancel.';
    case 'dead':
      return replay;
    case 'done':
      if (row?.trigger === 'manual') return 'To run it again: runNow.';
      // A backfill of the new name leaves alone what ran under this one.
      if (job?.yieldsTo) return replay;
      return `To run this period again: ${backfill(', { replay: true }')}; what its receipts have done is not done twice. For a run that has nothing to do with it: runNow.`;
    case 'cancelled':
    case 'skipped':
    case 'undecided':
    case 'before the schedule':
      if (row?.trigger === 'manual') return 'To run it after all: runNow.';
      // A backfill leaves alone what was started before.
      if (row?.status === 'cancelled' && row.starts.length > 0) return replay;
      if (former !== null)
        return `It was decided as "${former}": look there, with explain(${JSON.stringify(former)}, ${at}). A backfill of "${jobName}" leaves it alone.`;
      if (fireTime <= now) return `To run this period after all: ${backfill('')}.`;
      return row?.requestedBy
        ? `To run it after all: unskip(${of}, { by }).`
        : `To run this period after all, when its time has come: ${backfill('')}.`;
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

/** Why a planned time did not run, or does not yet. */
export function explainAbsence(facts: ExplanationFacts, kind: ExplanationKind): NonNullable<Explanation['why']> {
  const { jobName, fireTime, now, job, row } = facts;
  switch (kind) {
    case 'unknown job':
      return `There is no job "${jobName}", and no row for it.`;
    case 'no occurrence':
      return `It is no fire time of the job's schedule${facts.schedule?.leftOutBy ? `, for its calendar leaves it out (${facts.schedule.leftOutBy})` : ''}.${nearest(facts)}`;
    case 'before the schedule':
      return `The schedule holds from ${iso(job!.effectiveFrom)} on; what came before is never due.`;
    case 'not due yet':
      return `It is due in ${formatDuration(Math.round((fireTime.getTime() - now.getTime()) / 1_000) * 1_000)}, by the database's clock.${hold(job)}`;
    case 'undecided':
      return undecided(facts);
    case 'waiting':
      return waiting(facts);
    case 'dead':
      return row!.reason === 'attempts used up'
        ? 'It used up its attempts and waits for a person.'
        : `It is dead${row!.reason ? ` (${row!.reason})` : ''} and waits for a person.`;
    case 'cancelled':
      return `It was cancelled: ${row!.reason}.`;
    default:
      return skipped(facts);
  }
}

function skipped({ row }: ExplanationFacts): string {
  const { reason, gap, fireTime } = row!;
  if (!gap || gap.count === 1)
    return reason?.startsWith('skipped by ') ? `It was ${reason}.` : `It was skipped: ${reason}.`;
  return `It was skipped: ${reason}. One row, of ${iso(fireTime)}, says so for ${gap.count} occurrences from ${iso(gap.from)} on.`;
}

function waiting({ row, job, now, inTheWay }: ExplanationFacts): string {
  const began =
    row!.status === 'queued'
      ? 'It waits for its start'
      : `Its last attempt ended ${row!.status}${row!.reason ? ` (${row!.reason})` : ''}, and it waits for the next`;
  const held = hold(job);
  if (job?.removedAt) return `${began}, but the job was removed: it will be cancelled.`;
  if (held !== '') return `${began}.${held}`;
  if (row!.nextAttemptAt && row!.nextAttemptAt > now) return `${began}, at ${iso(row!.nextAttemptAt)}.`;
  if (job?.instances === 0) return `${began}, but no live instance knows the job.`;
  if (inTheWay) return `${began}: the run of ${iso(inTheWay.fireTime)} is under way on ${inTheWay.instanceId}.`;
  if (job?.fullGroup)
    return `${began}: its concurrency group "${job.fullGroup.name}" has ${job.fullGroup.limit} runs under way, as many as it may.`;
  return `${began}: for an instance with room for it.`;
}

function undecided({ fireTime, job, schedule }: ExplanationFacts): string {
  const { decidedUntil, removedAt, yieldsTo, instances } = job!;
  if (removedAt) return `It has no row: the job was removed ${iso(removedAt)}.`;
  if (yieldsTo !== null)
    return `It has no row under this name: the job's occurrences are decided as "${yieldsTo}". Explain that one.`;
  if (schedule?.isExternal) return 'It has no row: its trigger is external, and nobody has delivered it.';
  if (fireTime <= decidedUntil)
    return `It has no row, though everything up to ${iso(decidedUntil)} is decided: its history was dropped, or it was decided under another name or schedule.`;
  if (instances === 0)
    return 'It is due and has no row: no live instance knows the job. When one starts, the missed policy decides.';
  return `It is due and has no row yet: everything is decided up to ${iso(decidedUntil)}, and this is later. The claim, or the missed policy, decides next.${hold(job)}`;
}

function hold(job: ExplainedJob | null): string {
  if (!job) return '';
  if (!job.enabled) return ' The job is disabled.';
  if (job.paused) {
    const { by, reason, since, until } = job.paused;
    return ` The job is paused since ${iso(since)}${by ? ` by ${by}` : ''}${reason ? ` (${reason})` : ''}, until ${until ? iso(until) : 'somebody resumes it'}.`;
  }
  return job.flagIsOff ? ` Its flag ${job.flag} is off.` : '';
}

function nearest({ schedule }: ExplanationFacts): string {
  const { before, after } = schedule!;
  if (before && after) return ` The nearest are before it ${iso(before)} and after it ${iso(after)}.`;
  if (before) return ` The nearest is before it: ${iso(before)}.`;
  return after ? ` The nearest is after it: ${iso(after)}.` : ' It has none.';
}
