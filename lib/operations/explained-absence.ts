import type { Explanation, ExplainedJob, ExplanationFacts, ExplanationKind } from './explanation-facts.js';
import { formatDuration } from '../options/duration.js';

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

function iso(instant: Date): string {
  return instant.toISOString();
}
