import { Injectable } from '@nestjs/common';
import type { Explanation, ExplanationFacts } from '../domain/explain/explanation-facts.js';
import { explanationOf } from '../domain/explain/explanation.js';
import { leftOutBy } from '../domain/missed/left-out.js';
import { compileSchedule } from '../domain/schedule/schedule.js';
import { given, instant, jobNameOf } from '../options/operation-rules.js';
import { AfterRegistration } from '../runtime/registration.js';
import { ExplainStore, type StoredSchedule } from '../store/operations/explain.store.js';

/** Says what became of a planned time, and why. */
@Injectable()
@AfterRegistration()
export class Explanations {
  constructor(private readonly store: ExplainStore) {}

  /**
   * How many runners started for that planned time; what blocked the second start; whether it overlapped others; what to
   * do to rerun it; and why it did not run, when it did not. By the schedule as it is now. A job or a time that nobody
   * knows is an answer, too.
   * @throws InvalidOptionsError
   */
  async explain(jobName: string, fireTime: Date): Promise<Explanation> {
    const verb = 'SchedulerService.explain';
    const key = { jobName: jobNameOf(jobName, verb), fireTime: given(fireTime, instant, `${verb}: fireTime`) };
    const { storedSchedule, ...facts } = await this.store.facts(key);
    return explanationOf({ ...facts, schedule: storedSchedule && around(storedSchedule, key) });
  }
}

/** Null for a schedule that cannot be read here: a newer version of this library, or a person, may have stored it. */
function around({ cron, timeZone, calendar }: StoredSchedule, { jobName, fireTime }: { jobName: string; fireTime: Date }): ExplanationFacts['schedule'] {
  try {
    const schedule = compileSchedule(cron, timeZone, jobName, calendar);
    const at = fireTime.getTime();
    const [before, after] = [schedule.previousBefore(at), schedule.nextAfter(at)].map((found) => (found === null ? null : new Date(found)));
    return { fires: schedule.nextAfter(at - 1) === at, isExternal: schedule.isExternal, leftOutBy: leftOutBy(schedule, at, jobName), before: before!, after: after! };
  } catch {
    return null;
  }
}
