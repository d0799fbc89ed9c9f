import { describe, expect, it } from '@jest/globals';
import { planCatchUp } from '../../lib/catch-up/catch-up.js';
import type { JobDefinition } from '../../lib/options/job-definition.js';
import { compileSchedule } from '../../lib/cron/schedule.js';
import { aJob } from '../support/job.js';
import { notOffered, policyCases, type PolicyCase } from '../support/policy-cases.js';
import { SimulatedJob } from '../support/simulated-job.js';

const MISSED = ['missed: too old', 'missed: too many', 'missed: skipped', 'missed: superseded by a newer one'] as const;

/** Where our rule is another one, and what we do instead. */
const OTHER_RULES: Readonly<
  Record<string, { readonly because: string; readonly expect: Readonly<Record<string, unknown>> }>
> = {
  'decide-033': {
    because:
      'From 09:00 to a week later at 10:00 there are 169 fire times; one runs, and 168 are recorded. The case says 167.',
    expect: { lost: 168 },
  },
  'decide-037': { because: 'As decide-033.', expect: { lost: 168 } },
  'timeline-001': {
    because:
      'What is due while a run holds its lease is skipped for good, and not started late when that run ends; the case allows both.',
    expect: {
      starts: ['10:00', '10:04', '10:05', '10:06'].map((time) => ({
        slot: `2016-05-19T${time}:00Z`,
        at: `2016-05-19T${time}:00Z`,
      })),
    },
  },
};

const cases = policyCases();
const offered = cases.filter((each) => notOffered(each) === null);
const ofKind = (...kinds: PolicyCase['kind'][]) =>
  offered
    .filter(({ kind }) => kinds.includes(kind))
    .map((each): [string, PolicyCase] => [
      each.id,
      { ...each, expect: { ...each.expect, ...OTHER_RULES[each.id]?.expect } },
    ]);

describe('the table of policy cases', () => {
  it('has no case that is left out silently', () => {
    const left = cases.map(notOffered).filter((name) => name !== null);
    expect(
      Object.fromEntries(
        [...new Set(left)].sort().map((name) => [name, left.filter((other) => other === name).length]),
      ),
    ).toEqual({
      'a pause after a failure': 1,
      'backfills in the planner': 1,
      'manual runs in the planner': 1,
      'overlap queueAll in the planner': 1,
      'overlap queueOne in the planner': 1,
      'overlap replace in the planner': 7,
      'overlap replaceKill': 1,
      'schedules that begin with their creation': 4,
    });
    expect(offered.length + left.length).toBe(cases.length);
    expect(Object.keys(OTHER_RULES).filter((id) => !offered.some((each) => each.id === id))).toEqual([]);
  });

  it.each(ofKind('decide'))('%s', (_, each) => {
    const { state, now, expect: wanted } = each;
    if (wanted.registration === 'rejected') {
      expect(() => jobOf(each)).toThrow();
      return;
    }
    const job = new SimulatedJob(jobOf(each), Date.parse(state.lastFire ?? state.createdAt), () => 1);
    if (state.paused) job.held.push({ since: -Infinity, until: Infinity, reason: 'paused' });
    for (const { fireTime } of state.running ?? []) job.running(Date.parse(fireTime), Date.parse(fireTime), Infinity);
    const before = job.starts().length;
    job.start(2);
    job.tick(Date.parse(now));
    judge(wanted, {
      starts: iso(
        job
          .starts()
          .slice(before)
          .map(({ slot }) => slot),
      ),
      runningAfter: [...job.rows.values()].filter(({ status }) => status === 'running').length,
      skipped: iso(job.recorded('overlap').map(({ until }) => until)),
      lost: sum(job.recorded(...MISSED)),
      nextWake: iso([job.job.schedule.nextAfter(Date.parse(now))!])[0],
      // No policy that is offered stops a run.
      cancels: [],
    });
  });

  it.each(ofKind('most-recent', 'missed-list'))('%s', (_, each) => {
    const { state, now, expect: wanted, alsoOk } = each;
    const job = jobOf(each, 0);
    const window = { from: Date.parse(state.lastFire ?? state.createdAt), now: Date.parse(now), held: [] };
    const { run, record } = planCatchUp(job, window, []);
    const starts = iso(run);
    judge(alsoOk?.some((other) => JSON.stringify(other) === JSON.stringify(starts)) ? { ...wanted, starts } : wanted, {
      starts,
      mostRecentMissed: starts.at(-1) ?? null,
      missedCount: run.length + sum(record),
      nextFire: iso([job.schedule.nextAfter(window.now)!])[0],
    });
  });

  it.each(ofKind('timeline'))('%s', (_, each) => {
    const job = simulate(each);
    judge(each.expect, {
      starts: job.starts().map(({ slot, at }) => ({ slot: iso([slot])[0], at: iso([at])[0] })),
      startsFrom: iso(
        job
          .starts()
          .slice(1, 2)
          .map(({ slot }) => slot),
      )[0],
      skipped: iso(job.recorded('overlap').map(({ until }) => until)),
      lost: sum(job.recorded(...MISSED)),
      rowsForSlot: job.rows.size,
    });
  });
});

function jobOf({ schedule, policy }: PolicyCase, lateAfterMs: number | null = null): JobDefinition {
  const catchUpWindowMs = policy.maxLateMs ?? policy.backfillMs ?? Infinity;
  return {
    ...aJob('job', '* * * * *'),
    schedule: compileSchedule(schedule.expr, schedule.tz),
    overlap: policy.overlap === 'allow' ? 'allow' : 'forbid',
    missed: ({ latest: 'once', all: 'all', none: 'skip' } as const)[policy.catchUp as 'latest'],
    catchUpWindowMs,
    lateAfterMs,
  };
}

function simulate(each: PolicyCase): SimulatedJob {
  const work = new Map((each.work ?? []).map(({ slot, runsMs }) => [Date.parse(slot), runsMs ?? 0]));
  const job = new SimulatedJob(jobOf(each), Date.parse(each.from), (fireTime) => work.get(fireTime) ?? 0);
  const events = (each.events ?? [])
    .map(({ at, do: what }) => ({ at: Date.parse(at), what }))
    .sort((a, b) => a.at - b.at);
  job.start(2);
  for (
    let now = Date.parse(each.from);
    now <= Date.parse(each.to);
    now = Math.min(job.wakesAt(now), events[0]?.at ?? Infinity)
  ) {
    while (events[0] && events[0].at <= now)
      for (const what of events.shift()!.what.split(', ')) happen(job, what, now, each.schedule.tz);
    job.tick(now);
  }
  return job;
}

function happen(job: SimulatedJob, what: string, now: number, timeZone: string): void {
  const redeploy = /^redeploy with '(.+)'$/.exec(what);
  if (redeploy) job.edit(compileSchedule(redeploy[1]!, timeZone), now);
  else if (what === 'stop all replicas') job.stopAll();
  else if (what === 'start one replica') job.start(1);
  else if (what === 'pause') job.held.push({ since: now, until: Infinity, reason: 'paused' });
  else if (what === 'unpause') job.held.at(-1)!.until = now;
  else if (what !== 'wake early') throw new Error(`Nobody knows how to "${what}".`);
}

/** Remarks in words, and what only policies that are not offered have. */
const REMARKS = ['alsoOk', 'staleList', 'lastFireIsRunStart', 'registration'];

function judge(wanted: PolicyCase['expect'], found: Readonly<Record<string, unknown>>): void {
  const facts = Object.keys(wanted).filter((key) => !REMARKS.includes(key));
  expect(Object.fromEntries(facts.map((key) => [key, key in found ? found[key] : 'not looked at']))).toEqual(
    Object.fromEntries(facts.map((key) => [key, wanted[key]])),
  );
}

function iso(instants: readonly number[]): string[] {
  return instants.map((instant) => new Date(instant).toISOString().replace('.000Z', 'Z'));
}

function sum(rows: readonly { readonly count: number }[]): number {
  return rows.reduce((total, { count }) => total + count, 0);
}
