import { readFileSync } from 'node:fs';
import { Logger, UnauthorizedException } from '@nestjs/common';
import { describe, expect, it } from '@jest/globals';
import { parse } from 'yaml';
import { EXIT } from '../../lib/cli/run-command.js';
import { readArguments, type TriggerCommand } from '../../lib/cli/trigger-arguments.js';
import { delivered, type DeliveredTime, lateness, occurrenceOf } from '../../lib/operations/delivery-rules.js';
import type { MissedPolicy } from '../../lib/options/job-definition.js';
import type { RunStatus } from '../../lib/options/run.js';
import { compileSchedule } from '../../lib/cron/schedule.js';
import { DeliveryRefusedError, InvalidOptionsError, unknownJob } from '../../lib/errors/errors.js';
import { refusalOf, statusOf } from '../../lib/trigger/trigger.module.js';
import { readTriggerRequest } from '../../lib/trigger/trigger-request.js';

const read = (page: string) => readFileSync(new URL(`../../docs/${page}`, import.meta.url), 'utf8');
const PAGE = read('external-trigger.md');
const CLOCKS = read('external-clocks.md');
const SCHEDULE = compileSchedule('15 2 * * *', 'UTC');
const RULES = { schedule: SCHEDULE, lateAfterMs: 120_000, catchUpWindowMs: 86_400_000, fallbackMs: null };
const PLANNED = Date.parse('2026-11-30T01:15:00Z');

const blocks = (language: string): string[] =>
  [...CLOCKS.matchAll(new RegExp('```' + language + '\\n([^]*?)```', 'g'))].map(([, text]) => text!);
const at = (text: string) => Date.parse(`2026-11-${text.replace(' ', 'T')}Z`);
const short = (millis: number) => new Date(millis).toISOString().slice(8, 19).replace('T', ' ');

function rows(firstHeading: string): string[][] {
  const block = PAGE.split(/\n\n/).find((text) => text.startsWith(`| ${firstHeading} |`))!;
  return block
    .trim()
    .split('\n')
    .slice(2)
    .map((line) =>
      line
        .slice(1, -1)
        .split('|')
        .map((cell) => cell.trim().replaceAll('`', '')),
    );
}

describe('docs/external-trigger.md: what a delivery becomes', () => {
  it.each(rows('the delivery says'))('%s, delivered at %s: %s', (says, deliveredAt, written) => {
    const [kind, time] = says!.split(': ') as ['planned' | 'sent' | 'nothing', string];
    const given: DeliveredTime = kind === 'nothing' ? { kind: 'now' } : { kind, at: at(time) };
    const found = occurrenceOf(SCHEDULE, given, at(deliveredAt!), RULES.lateAfterMs);
    const early = typeof found === 'number' && found > at(deliveredAt!) ? ', and waits for its time' : '';
    expect(typeof found === 'number' ? `${short(found)}${early}` : `refused: ${found.problem}`).toBe(written);
  });

  it.each(rows('missed'))('missed: %s, planned %s, delivered at %s: %s', (missed, planned, deliveredAt, written) => {
    const reason = lateness(
      { fireTime: at(planned!), now: at(deliveredAt!), isSuperseded: false },
      { ...RULES, missed: missed as MissedPolicy },
    );
    expect(reason === null ? 'run' : `skipped: ${reason}`).toBe(written);
  });

  it('what is answered over HTTP, and the exit code', () => {
    Logger.overrideLogger(false);
    const answer = (status: RunStatus, { duplicate = false, waited = false } = {}) =>
      statusOf(delivered({ jobName: 'export', fireTime: new Date(0) }, { status, reason: null }, duplicate), waited);
    const refused = (problem: DeliveryRefusedError['problem']) =>
      refusalOf(new DeliveryRefusedError('export', problem, 'it is')).getStatus();
    const expected: Record<string, [number, number]> = {
      'taken in': [answer('queued'), EXIT.taken],
      'skipped, with its reason': [answer('skipped'), EXIT.taken],
      'a duplicate: what there is of it': [answer('running', { duplicate: true }), EXIT.taken],
      'waited: done or skipped': [answer('done', { waited: true }), EXIT.taken],
      'waited: not over yet': [answer('failed', { waited: true }), EXIT.notOver],
      'waited: dead or cancelled': [answer('dead', { waited: true }), EXIT.notDone],
      'wrong input': [refusalOf(new InvalidOptionsError(['no'])).getStatus(), EXIT.usage],
      'no token, or a wrong one': [new UnauthorizedException().getStatus(), EXIT.refused],
      'no such job': [refusalOf(unknownJob('export', null)).getStatus(), EXIT.refused],
      'too early': [refused('too early'), EXIT.refused],
      'another refusal': [refused('off the grid'), EXIT.refused],
      'the database or the endpoint failed: deliver it again': [
        refusalOf(new Error('gone')).getStatus(),
        EXIT.unreachable,
      ],
    };
    expect(
      Object.fromEntries(rows('what came of it').map(([what, http, code]) => [what, [Number(http), Number(code)]])),
    ).toEqual(expected);
  });
});

describe('docs/external-clocks.md', () => {
  const cronJobs = blocks('yaml').map((text) => parse(text) as any);
  const podOf = (cronJob: any) => cronJob.spec.jobTemplate.spec.template.spec;
  /** As Kubernetes fills it in. */
  const filled = (text: string) => text.replace('$(JOB_NAME)', `export-${PLANNED / 60_000}`);

  it('are CronJobs whose pods know the name of their Job', () => {
    expect(cronJobs).toHaveLength(2);
    for (const cronJob of cronJobs) {
      expect(cronJob).toMatchObject({
        apiVersion: 'batch/v1',
        kind: 'CronJob',
        spec: { schedule: '15 2 * * *', timeZone: 'Europe/Berlin', concurrencyPolicy: 'Allow' },
      });
      expect(compileSchedule(cronJob.spec.schedule, cronJob.spec.timeZone).nextAfter(PLANNED - 1)).toBe(PLANNED);
      const [container] = podOf(cronJob).containers;
      expect(container.env).toContainEqual({
        name: 'JOB_NAME',
        valueFrom: { fieldRef: { fieldPath: "metadata.labels['batch.kubernetes.io/job-name']" } },
      });
      expect(podOf(cronJob).restartPolicy).toBe('Never');
    }
  });

  it('the command line of the one is right, and its pod is not tried again for what is wrong for good', () => {
    const { spec } = cronJobs[0];
    const [container] = podOf(cronJobs[0]).containers;
    expect(container.command.slice(0, 2)).toEqual(['npx', 'nestjs-distributed-cron']);
    const command = readArguments([...container.command.slice(2), ...container.args.map(filled)], {});
    expect(command).toMatchObject({
      kind: 'trigger',
      jobName: 'export',
      time: { kind: 'planned', at: PLANNED },
      waitMs: 3_600_000,
    });
    const [rule] = spec.jobTemplate.spec.podFailurePolicy.rules;
    expect(rule.onExitCodes).toEqual({
      containerName: container.name,
      operator: 'In',
      values: [EXIT.notDone, EXIT.usage, EXIT.refused],
    });
  });

  it('the header of the other is read, and its token is in a file', () => {
    const [container] = podOf(cronJobs[1]).containers;
    const headers = container.args.filter((_: string, index: number, args: string[]) => args[index - 1] === '--header');
    expect(headers).toEqual(['@/etc/trigger/header', 'X-Kubernetes-Job: $(JOB_NAME)']);
    const [name, value] = filled(headers[1]).split(': ');
    expect(readTriggerRequest(undefined, { [name!.toLowerCase()]: value! }, {})).toMatchObject({
      time: { kind: 'planned', at: PLANNED },
    });
    expect(container.args.at(-1)).toMatch(/\/cron\/export$/);
    const [volume] = podOf(cronJobs[1]).volumes;
    expect(container.volumeMounts).toEqual([{ name: volume.name, mountPath: '/etc/trigger', readOnly: true }]);
  });

  it('EventBridge: the schedule runs a command line that is right, and the event is read', () => {
    const [schedule, targets, event] = blocks('json').map((text) => JSON.parse(text));
    const { containerOverrides } = JSON.parse(
      schedule.Target.Input.replace('<aws.scheduler.scheduled-time>', '2026-11-30T01:15:00Z'),
    );
    expect(containerOverrides[0].command.slice(0, 2)).toEqual(['npx', 'nestjs-distributed-cron']);
    expect(readArguments(containerOverrides[0].command.slice(2), {}) as TriggerCommand).toMatchObject({
      jobName: 'export',
      time: { kind: 'planned', at: PLANNED },
      by: 'eventbridge',
    });
    expect(schedule).toMatchObject({
      FlexibleTimeWindow: { Mode: 'OFF' },
      ScheduleExpressionTimezone: 'Europe/Berlin',
    });
    expect(targets.Targets[0].Arn).toContain(':api-destination/');
    const { time, by } = readTriggerRequest(event, {}, {});
    expect({
      by,
      fireTime: occurrenceOf(compileSchedule('15 2 * * *', 'Europe/Berlin'), time, PLANNED + 900, RULES.lateAfterMs),
    }).toEqual({ by: 'eventbridge', fireTime: PLANNED });
  });

  it('Cloud Scheduler: the body and the header are read', () => {
    const [shell] = blocks('sh');
    const [, body] = shell!.match(/--message-body='(.*)'/)!;
    expect(
      readTriggerRequest(JSON.parse(body!), { 'x-cloudscheduler-scheduletime': '2026-11-30T02:15:00+01:00' }, {}),
    ).toMatchObject({ by: 'cloud-scheduler', time: { kind: 'planned', at: PLANNED } });
  });
});
