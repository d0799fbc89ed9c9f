import { Option } from 'commander';
import { InvalidOptionsError } from '../errors/errors.js';
import type { DeadLetterFilter } from '../operations/dead-letters.service.js';
import type { InDoubtFilter } from '../operations/in-doubt.service.js';
import { given, type Operator } from '../options/operator-options.js';
import { schemaName, text } from '../options/option-rules.js';
import { type Answer, type CommandSet, type Given, json, whole, zoneOf } from './command-set.js';
import { rolesSql } from './roles.js';
import type { Scheduler } from './scheduler-context.js';
import { readTime, utc } from './tables.js';

/** What an operator does, each one verb of `SchedulerService`. */
export function changingCommands(set: CommandSet): void {
  set.bare('migrate', 'make the tables and functions, or bring them up to this release', async (_, options) => {
    await set.opened(options, async () => undefined, true);
    set.answer(options, {
      json: { migrated: true },
      text: `The tables in schema ${options.schema} are those of this release.`,
    });
  });

  set
    .bare(
      'sql <what>',
      'the SQL that an administrator runs; sql roles: a role that migrates, and one that runs',
      async ([what], options) => {
        if (what !== 'roles') throw new InvalidOptionsError([`sql: expected roles, got ${JSON.stringify(what)}`]);
        const roles = {
          schema: given(options.schema, schemaName, '--schema'),
          migrator: given(options['migrator'], text(63), '--migrator'),
          runner: given(options['runner'], text(63), '--runner'),
        };
        set.answer(options, { json: { sql: rolesSql(roles) }, text: rolesSql(roles) });
      },
    )
    .option('--migrator <role>', 'owns the tables', 'cron_migrator')
    .option('--runner <role>', 'the application', 'cron_runner');

  set
    .change(
      'pause <job>',
      'start nothing of a job; what runs goes on',
      async ({ verbs }, [jobName], operator, options) => {
        const until =
          options['until'] === undefined
            ? undefined
            : readTime(options['until'], await zoneOf(verbs, jobName), '--until');
        const pause = await verbs.pause(jobName!, operator, until ? { until } : {});
        return { json: pause, text: `${jobName} is paused${pause.until ? ` until ${utc(pause.until)}` : ''}.` };
      },
    )
    .option('--until <time>', 'it ends by itself then');

  const verb = (name: 'resume' | 'enable' | 'disable', summary: string, done: string, before: string) =>
    set.change(`${name} <job>`, summary, async ({ verbs }, [jobName], operator) => {
      const changed = await verbs[name](jobName!, operator);
      return { json: { changed }, text: `${jobName} ${changed ? done : before}.` };
    });
  verb('resume', 'end a pause', 'goes on with what is due from now on', 'was not paused');
  verb('enable', 'let a disabled job run', 'is enabled', 'was enabled already');
  verb('disable', 'as a pause without an end', 'is disabled', 'was disabled already');

  set
    .change(
      'run <job>',
      'add a run now, beside those of the schedule',
      async ({ verbs }, [jobName], operator, { overlap, data }) => {
        const key = await verbs.runNow(jobName!, operator, {
          ...(overlap && { overlap }),
          ...(data !== undefined && { data: json(data, '--data') }),
        });
        return {
          json: key,
          text: `A run of ${jobName} was added: ${key.fireTime.toISOString()}. See: explain ${jobName} ${key.fireTime.toISOString()}`,
        };
      },
    )
    .addOption(
      new Option('--overlap <policy>', 'where a run of the job is under way').choices(['forbid', 'queue', 'allow']),
    )
    .option('--data <json>', 'what the handler gets as run.data');

  set
    .change(
      'replay [job] [time]',
      'let a run begin again, with all its attempts; without a time, the dead ones',
      async (scheduler, args, operator, options) => one(scheduler, args, operator, options, 'replay'),
    )
    .option('--dry-run', 'say which')
    .option('--limit <count>', 'at most so many', '100')
    .option('--error-contains <text>', 'only those with this in their error');

  set
    .destroy(
      'discard [job] [time]',
      'end a dead run for good; without a time, all dead ones',
      async (scheduler, args, operator, options) => one(scheduler, args, operator, options, 'discard'),
    )
    .option('--dry-run', 'say which')
    .option('--limit <count>', 'at most so many', '100')
    .option('--error-contains <text>', 'only those with this in their error');

  set.destroy(
    'cancel <job> <time>',
    'end a run that waits, or stop one that runs',
    async ({ verbs }, [jobName, time], operator) => {
      const at = readTime(time!, await zoneOf(verbs, jobName), 'time');
      const cancelled = await verbs.cancel(jobName!, at, operator);
      return {
        json: { cancelled },
        text: cancelled === 'cancelled' ? 'It is cancelled.' : 'It runs: its handler is told to stop.',
      };
    },
  );

  set
    .change('skip <job>', 'leave out the next occurrences', async ({ verbs }, [jobName], operator, { count }) => {
      const times = await verbs.skipNext(jobName!, operator, { count: whole(count, '--count') });
      return { json: times, text: `Skipped: ${times.map(utc).join(', ') || 'none, the schedule has no more'}.` };
    })
    .option('--count <count>', 'how many', '1');

  set.change(
    'unskip <job> <time>',
    'run an occurrence that was to be skipped',
    async ({ verbs }, [jobName, time], operator) => {
      const at = readTime(time!, await zoneOf(verbs, jobName), 'time');
      await verbs.unskip(jobName!, at, operator);
      return { json: { fireTime: at }, text: `${jobName} of ${utc(at)} runs.` };
    },
  );

  set
    .change(
      'override <job> [cron]',
      'another schedule than the declared one, until it is cleared',
      async ({ verbs }, [jobName, cron], operator, options) => {
        if (options['clear']) {
          const changed = await verbs.clearOverride(jobName!, operator);
          return {
            json: { changed },
            text: changed ? `${jobName} has its declared schedule again.` : `${jobName} had no override.`,
          };
        }
        await verbs.override(
          jobName!,
          { ...(cron !== undefined && { cron }), ...(options['timeZone'] && { timeZone: options['timeZone'] }) },
          operator,
        );
        return { json: { changed: true }, text: `${jobName} has this schedule on every replica.` };
      },
    )
    .option('--time-zone <zone>', 'an IANA name')
    .option('--clear', 'the declared schedule holds again');

  set.change('flag <name> <state>', 'switch a flag on or off', async ({ verbs }, [name, state], operator) => {
    if (state !== 'on' && state !== 'off')
      throw new InvalidOptionsError([`state: expected on or off, got ${JSON.stringify(state)}`]);
    await verbs.setFlag(name!, state === 'on', operator);
    return { json: { name, on: state === 'on' }, text: `${name} is ${state}.` };
  });

  set
    .change(
      'resolve <outcome> [job] [time]',
      'say what came of calls in doubt: done or undone',
      async ({ verbs }, [outcome, jobName, time], operator, options) => {
        if (outcome !== 'done' && outcome !== 'undone')
          throw new InvalidOptionsError([`outcome: expected done or undone, got ${JSON.stringify(outcome)}`]);
        if (operator.reason === undefined) throw new InvalidOptionsError(['--reason: say how that was found out']);
        const { entity, effect, key: idempotencyKey, answer: value } = options;
        const filter: InDoubtFilter = {
          ...(jobName !== undefined && { jobName }),
          ...(time !== undefined && { fireTime: readTime(time, await zoneOf(verbs, jobName), 'time') }),
          ...(entity !== undefined && { entity }),
          ...(effect !== undefined && { effect }),
          ...(idempotencyKey !== undefined && { idempotencyKey }),
        };
        const resolved = await verbs.resolveInDoubt(filter, outcome, {
          ...operator,
          reason: operator.reason,
          ...(value !== undefined && { answer: json(value, '--answer') }),
        });
        return {
          json: resolved,
          text: `${resolved.effects.length} resolved as ${outcome}; ${resolved.left} left.`,
          isBad: resolved.effects.length === 0,
        };
      },
    )
    .option('--entity <entity>')
    .option('--effect <effect>')
    .option('--key <key>', 'the idempotency key')
    .option('--answer <json>', 'what onceExternal gives as the result from now on');

  set
    .change(
      'backfill <job> <from> <to>',
      'run past occurrences, oldest first',
      async ({ verbs }, [jobName, from, to], { by, reason }, options) => {
        const timeZone = await zoneOf(verbs, jobName);
        const plan = await verbs.backfill(jobName!, readTime(from!, timeZone, 'from'), readTime(to!, timeZone, 'to'), {
          by,
          ...(reason !== undefined && { reason }),
          ...(options['dryRun'] && { dryRun: true }),
          ...(options['replay'] && { replay: true }),
          ...(options['overlap'] && { overlap: options['overlap'] }),
          maxConcurrent: whole(options['maxConcurrent'], '--max-concurrent'),
        });
        const text = `${plan.occurrences} occurrences: ${plan.willRun} ${plan.id ? 'will' : 'would'} run, ${plan.alreadyRan} ran already, ${plan.underWay} under way.`;
        return { json: plan, text: plan.id ? `${text}\nBackfill ${plan.id}. See: backfills` : text };
      },
    )
    .option('--dry-run', 'say what would happen')
    .option('--replay', 'also what ran already')
    .option('--max-concurrent <count>', 'so many at a time, over all replicas', '1')
    .addOption(new Option('--overlap <policy>', 'beside other runs of the job').choices(['forbid', 'allow']));

  set.destroy('cancel-backfill <id>', 'start nothing more of a backfill', async ({ verbs }, [id], { by, reason }) => {
    const progress = await verbs.cancelBackfill(id!, { by, ...(reason !== undefined && { reason }) });
    return { json: progress, text: `It is ${progress.state}; ${progress.notReached} were not reached.` };
  });
}

async function one(
  { verbs }: Scheduler,
  [jobName, time]: string[],
  operator: Operator,
  options: Given,
  verb: 'replay' | 'discard',
): Promise<Answer> {
  if (jobName !== undefined && time !== undefined) {
    const at = readTime(time, await zoneOf(verbs, jobName), 'time');
    if (options['dryRun'])
      return { json: [{ jobName, fireTime: at }], text: `Would ${verb} ${jobName} of ${utc(at)}.` };
    await verbs[verb](jobName, at, operator);
    return {
      json: [{ jobName, fireTime: at }],
      text: `${jobName} of ${utc(at)}: ${verb === 'replay' ? 'it begins again' : 'it is cancelled'}.`,
    };
  }
  if (verb === 'discard' && operator.reason === undefined && !options['dryRun'])
    throw new InvalidOptionsError(['--reason: say why they are given up']);
  const filter: DeadLetterFilter = {
    ...(jobName !== undefined && { jobName }),
    ...(options['errorContains'] && { errorContains: options['errorContains'] }),
  };
  const found = await verbs[`${verb}All`](filter, operator, {
    limit: whole(options['limit'], '--limit'),
    ...(options['dryRun'] && { dryRun: true }),
  });
  const lines = found.runs.map((run) => `${run.jobName} of ${utc(run.fireTime)}`);
  const done = verb === 'replay' ? 'begin again' : 'are cancelled';
  return {
    json: found,
    text: [...lines, `${lines.length} ${options['dryRun'] ? `would ${verb}` : done}; ${found.left} left.`].join('\n'),
  };
}
