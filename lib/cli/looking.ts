import { compileSchedule, nextFireTimes } from '../cron/schedule.js';
import type { InventoryEntry } from '../operations/inventory.service.js';
import type { RunStatus } from '../options/run.js';
import { type CommandSet, jobCalled, whole, zoneOf } from './command-set.js';
import { checkUp } from './doctor.js';
import { type Cell, readSince, readTime, span, table, utc, wallTime } from './tables.js';

/** Watching goes on until somebody ends it. */
const WATCH_EVERY_MS = 2_000;

/** What an operator looks at. */
export function lookingCommands(set: CommandSet): void {
  const { say, columns, interrupted } = set.terminal;

  set.look('jobs', 'all jobs: schedule, state, next and last run', async ({ verbs }) => {
    const jobs = await verbs.inventory();
    return { json: jobs, text: set.grid(JOBS, jobs.map(jobRow)) };
  });

  set
    .look(
      'inventory',
      'owner, overlap and missed rule of each job: the list to review',
      async ({ verbs }, _, { markdown }) => {
        const jobs = await verbs.inventory();
        const headings = ['job', 'owner', 'schedule', 'zone', 'overlap', 'missed', 'only defaults', 'declared by'];
        const rows = jobs.map((job) => [
          job.name,
          job.owner,
          job.cron,
          job.timeZone,
          job.overlap,
          job.missed,
          job.implicit.join(', '),
          job.declaredBy,
        ]);
        return { json: jobs, text: markdown ? markdownTable(headings, rows) : set.grid(headings, rows) };
      },
    )
    .option('--markdown', 'as a table of Markdown');

  set
    .look('runs [job]', 'what ran, what did not, and why', async ({ verbs }, [jobName], options) => {
      const timeZone = await zoneOf(verbs, jobName);
      const runs = await verbs.runs({
        ...(jobName !== undefined && { jobName }),
        ...(options['status'] !== undefined && { status: options['status'] as RunStatus }),
        ...(options['since'] !== undefined && { from: readSince(options['since'], timeZone, '--since') }),
        ...(options['until'] !== undefined && { to: readTime(options['until'], timeZone, '--until') }),
        limit: whole(options['limit'], '--limit'),
      });
      const headings = ['job', 'planned', 'utc', 'status', 'attempt', 'trigger', 'started', 'took', 'replica', 'why'];
      const rows = runs.map((run) => [
        run.jobName,
        wallTime(run.fireTime, run.timeZone),
        utc(run.fireTime),
        run.gapCount === null ? run.status : `${run.status} (${run.gapCount} occurrences)`,
        run.attempt || null,
        run.trigger,
        utc(run.startedAt),
        run.startedAt && run.finishedAt ? span(run.finishedAt.getTime() - run.startedAt.getTime()) : null,
        run.instanceId,
        run.error ? `${run.error.name}: ${run.error.message}` : run.reason,
      ]);
      return { json: runs, text: set.grid(headings, rows) };
    })
    .option('--since <time>', 'the earliest planned time, or how long ago: 24h', '24h')
    .option('--until <time>', 'the latest planned time')
    .option('--status <status>', 'only these')
    .option('--limit <count>', 'at most so many of each job', '100');

  set.look(
    'explain <job> <time>',
    'one planned time: how many started, what blocked a second, overlap, how to rerun',
    async ({ verbs }, [jobName, time]) => {
      const timeZone = await zoneOf(verbs, jobName);
      const explanation = await verbs.explain(jobName!, readTime(time!, timeZone, 'time'));
      const at = `${jobName} of ${wallTime(explanation.fireTime, timeZone)} (${timeZone}), ${utc(explanation.fireTime)}`;
      const starts = explanation.starts.map((start) => [
        start.attempt,
        start.instanceId,
        utc(start.startedAt),
        utc(start.finishedAt),
        start.status,
        start.error ?? start.reason ?? null,
      ]);
      const parts = [at, explanation.text];
      if (starts.length > 0) parts.push(set.grid(['attempt', 'replica', 'started', 'ended', 'status', 'why'], starts));
      return { json: explanation, text: parts.join('\n\n') };
    },
  );

  set
    .look('next <job>', 'the next fire times, with clock changes', async ({ verbs }, [jobName], options) => {
      const job = await jobCalled(verbs, jobName!);
      const count = whole(options['count'], '--count');
      const schedule = compileSchedule(job.cron, job.timeZone, job.name, job.calendar);
      const times = schedule.between(Date.now(), Infinity, count).map((at) => new Date(at));
      return {
        json: { jobName: job.name, cron: job.cron, timeZone: job.timeZone, fireTimes: times },
        text: fireTimes(times, job.timeZone, set),
      };
    })
    .option('--count <count>', 'how many', '10');

  set
    .bare(
      'try <expression>',
      'the next fire times of an expression, without a database',
      async ([expression], options) => {
        const times = nextFireTimes(expression!, {
          timeZone: options['timeZone'],
          from: new Date(),
          count: whole(options['count'], '--count'),
        });
        set.answer(options, { json: times, text: fireTimes(times, options['timeZone'], set) });
      },
    )
    .option('--time-zone <zone>', 'an IANA name', 'UTC')
    .option('--count <count>', 'how many', '10');

  set.look('flags', 'the kill switches', async ({ verbs }) => {
    const flags = await verbs.flags();
    return {
      json: flags,
      text: set.grid(
        ['flag', 'state'],
        flags.map(({ name, on }) => [name, on ? 'on' : 'off']),
      ),
    };
  });

  set
    .look('dead-letters [job]', 'runs that need a person', async ({ verbs }, [jobName], options) => {
      const runs = await verbs.runs({
        ...(jobName !== undefined && { jobName }),
        status: 'dead',
        from: readSince(options['since'], 'UTC', '--since'),
        limit: whole(options['limit'], '--limit'),
      });
      const rows = runs.map((run) => [
        run.jobName,
        utc(run.fireTime),
        run.attempt,
        utc(run.finishedAt),
        run.error ? `${run.error.name}: ${run.error.message}` : run.reason,
      ]);
      return { json: runs, text: set.grid(['job', 'planned', 'attempts', 'ended', 'why'], rows) };
    })
    .option('--since <time>', 'the earliest planned time, or how long ago', '31d')
    .option('--limit <count>', 'at most so many of each job', '100');

  set.look('in-doubt [job]', 'calls to others that may have happened', async ({ verbs }, [jobName]) => {
    const effects = await verbs.inDoubt(jobName === undefined ? {} : { jobName });
    const rows = effects.map((effect) => [
      effect.jobName,
      utc(effect.fireTime),
      effect.entity,
      effect.effect,
      effect.idempotencyKey,
      utc(effect.openedAt),
      effect.why,
    ]);
    return {
      json: effects,
      text: set.grid(['job', 'planned', 'entity', 'effect', 'idempotency key', 'since', 'why'], rows),
    };
  });

  set.look('backfills', 'the newest backfills and how far they are', async ({ verbs }) => {
    const all = await verbs.backfills();
    const rows = all.map((one) => [
      one.id,
      one.jobName,
      utc(one.from),
      utc(one.to),
      one.state,
      one.total,
      one.left,
      one.requestedBy,
    ]);
    return { json: all, text: set.grid(['id', 'job', 'from', 'to', 'state', 'total', 'left', 'by'], rows) };
  });

  set.look('replicas', 'the processes that take part', async ({ verbs }) => {
    const replicas = (await verbs.replicas()).filter(({ jobs, isAlive }) => jobs > 0 || isAlive);
    const rows = replicas.map((one) => [
      one.instanceId,
      one.isAlive
        ? one.blockedSince
          ? `blocked since ${utc(one.blockedSince)}`
          : 'alive'
        : `gone since ${utc(one.aliveUntil)}`,
      one.application,
      utc(one.startedAt),
      one.jobs,
      one.running,
      one.tz,
    ]);
    return {
      json: replicas,
      text: set.grid(['replica', 'state', 'application', 'started', 'jobs', 'running', 'tzdata'], rows),
    };
  });

  set
    .look('audit [job]', 'who did what, and why', async ({ verbs }, [jobName], { limit }) => {
      const actions = await verbs.actions({
        ...(jobName !== undefined && { jobName }),
        limit: whole(limit, '--limit'),
      });
      const rows = actions.map((one) => [
        utc(one.at),
        one.actor,
        one.action,
        one.jobName,
        utc(one.fireTime),
        one.reason,
      ]);
      return { json: actions, text: set.grid(['at', 'by', 'action', 'job', 'planned', 'reason'], rows) };
    })
    .option('--limit <count>', 'at most so many', '100');

  set.look('doctor', 'what is wrong, or soon will be; exit code 1 when something is', async (scheduler) => {
    const findings = await checkUp(scheduler);
    const isBad = findings.some(({ state }) => state === 'wrong');
    return {
      json: findings,
      text: set.grid(
        ['state', 'check', 'finding'],
        findings.map(({ state, check, finding }) => [state, check, finding]),
      ),
      isBad,
    };
  });

  set.bare('watch', 'the jobs, over and over, until it is interrupted', (_, options) =>
    set.opened(options, async ({ verbs }) => {
      const stop = new Promise<'stop'>((resolve) => interrupted?.(() => resolve('stop')));
      for (;;) {
        const jobs = await verbs.inventory();
        const picture = `${utc(new Date())}\n\n${table(JOBS, jobs.map(jobRow), columns)}`;
        say(options.json ? JSON.stringify(jobs) : columns === undefined ? picture : `\x1b[2J\x1b[H${picture}`);
        const pause = new Promise<'go on'>((resolve) => setTimeout(resolve, WATCH_EVERY_MS, 'go on'));
        if ((await Promise.race([stop, pause])) === 'stop') return;
      }
    }),
  );
}

const JOBS = ['job', 'state', 'schedule', 'zone', 'next', 'last', 'last status', 'running', 'waiting', 'dead', 'owner'];

function jobRow(job: InventoryEntry): Cell[] {
  return [
    job.name,
    stateOf(job),
    job.cron,
    job.timeZone,
    job.nextFireTime && wallTime(job.nextFireTime, job.timeZone),
    job.lastRun && wallTime(job.lastRun.fireTime, job.timeZone),
    job.lastRun?.status ?? null,
    job.running,
    job.waiting,
    job.dead,
    job.owner,
  ];
}

function stateOf(job: InventoryEntry): string {
  if (job.renamedTo !== null) return `renamed to ${job.renamedTo}`;
  if (job.state !== 'active') return job.state;
  if (!job.enabled) return 'disabled';
  if (job.paused) return job.paused.until ? `paused until ${utc(job.paused.until)}` : 'paused';
  if (job.flag && !job.flag.on) return `flag ${job.flag.name} off`;
  return job.overridden ? 'active, overridden' : 'active';
}

/** Marks where the offset from UTC changes. */
function fireTimes(times: readonly Date[], timeZone: string, set: CommandSet): string {
  const walls = times.map((time) => wallTime(time, timeZone));
  const changed = (index: number) => index > 0 && walls[index]!.slice(-6) !== walls[index - 1]!.slice(-6);
  return set.grid(
    ['as the clock shows it', 'utc', ''],
    times.map((time, index) => [walls[index]!, utc(time), changed(index) ? 'the clock was changed before' : '·']),
  );
}

function markdownTable(headings: readonly string[], rows: readonly (readonly Cell[])[]): string {
  const line = (cells: readonly Cell[]) =>
    `| ${cells
      .map((cell) =>
        String(cell ?? '')
          .replace(/\s+/g, ' ')
          .replaceAll('|', '\\|'),
      )
      .join(' | ')} |`;
  return [line(headings), line(headings.map(() => '---')), ...rows.map(line)].join('\n');
}
