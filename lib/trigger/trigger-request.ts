import type { DeliveredTime } from '../operations/delivery-rules.js';
import { InvalidOptionsError } from '../errors/errors.js';
import { storable } from '../options/operator-options.js';
import { duration, expected, text, type Rule, readOptions, type OptionTable } from '../options/option-rules.js';

/** A delivery as a request asks for it. */
export interface TriggerRequest {
  readonly time: DeliveredTime;
  readonly by: string;
  readonly data: unknown;
  /** Milliseconds; 0 for an answer at once. */
  readonly wait: number;
}

export type TriggerHeaders = Readonly<Record<string, string | string[] | undefined>>;

const plannedTime: Rule<number> = (given) => {
  const value = readInstant(given);
  return value === null ? expected('a time such as "2026-11-30T02:15:00Z"', given) : { value };
};

const kubernetesJob: Rule<number> = (given) => {
  const value = timeOfKubernetesJob(given);
  return value === null
    ? expected('the name of a Job that a CronJob made, such as "export-29400135"', given)
    : { value };
};

/**
 * Where a planned time may stand besides the body: our own, Google Cloud Scheduler's, and in the name of a Kubernetes
 * Job.
 */
const TIME_HEADERS = {
  'x-fire-time': plannedTime,
  'x-cloudscheduler-scheduletime': plannedTime,
  'x-kubernetes-job': kubernetesJob,
} as const;

const BODY = {
  fireTime: { rule: plannedTime },
  by: { rule: text(200) },
  data: { rule: storable },
} as const satisfies OptionTable;
const QUERY = {
  wait: { rule: duration({ atMost: '5m', whyMost: 'a proxy would cut it off' }) },
} as const satisfies OptionTable;

/**
 * Reads a request: the body `{ fireTime?, by?, data? }`, an event of EventBridge with the same in its `detail`, or
 * nothing.
 * @throws InvalidOptionsError with every problem
 */
export function readTriggerRequest(body: unknown, headers: TriggerHeaders, query: unknown): TriggerRequest {
  const given = bodyOf(body);
  if (!given) throw new InvalidOptionsError([`${expected(JSON_BODY, body).problem}.`]);
  if (body === undefined && hasContent(headers))
    throw new InvalidOptionsError([
      `expected ${JSON_BODY}, got ${String(headers['content-type'] ?? 'content without a type')}, which the application does not read.`,
    ]);
  const event = isEvent(given) ? given : null;
  const { values, problems } = readOptions(event ? (bodyOf(event.detail) ?? {}) : given, BODY, '');
  const { values: asked, problems: inQuery } = readOptions(bodyOf(query) ?? {}, QUERY, '');
  const all = [...problems, ...inQuery];
  const times = new Set(values.fireTime === undefined ? [] : [values.fireTime]);
  for (const [name, rule] of Object.entries(TIME_HEADERS)) {
    if (headers[name] === undefined || headers[name] === '') continue;
    const reading = rule(headers[name]);
    if ('value' in reading) times.add(reading.value);
    else all.push(`${name}: ${reading.problem}`);
  }
  const sentAt = event && plannedTime(event.time);
  if (sentAt && 'problem' in sentAt) all.push(`time: ${sentAt.problem}`);
  if (times.size > 1) all.push('the planned time is given twice, and not the same');
  if (all.length > 0) throw new InvalidOptionsError(all);
  const [planned] = times;
  const time: DeliveredTime =
    planned !== undefined
      ? { kind: 'planned', at: planned }
      : sentAt && 'value' in sentAt
        ? { kind: 'sent', at: sentAt.value }
        : { kind: 'now' };
  return { time, by: values.by ?? (event ? 'eventbridge' : 'http'), data: values.data, wait: asked.wait ?? 0 };
}

const JSON_BODY = 'JSON such as { "fireTime": "2026-11-30T02:15:00Z" }, sent as application/json, or no body';

/** What no parser has read is not nothing: the time in it would be passed over, and another occurrence meant. */
function hasContent({
  'content-length': length,
  'content-type': type,
  'transfer-encoding': encoding,
}: TriggerHeaders): boolean {
  return Number(length ?? 0) > 0 || (encoding !== undefined && type !== undefined);
}

/** Of one without content: what the framework makes of it. */
function bodyOf(body: unknown): Record<string, unknown> | null {
  if (body === undefined || body === null || body === '') return {};
  return typeof body === 'object' && !Array.isArray(body) ? (body as Record<string, unknown>) : null;
}

function isEvent(body: Record<string, unknown>): boolean {
  return 'detail-type' in body && 'time' in body;
}

/** A date and a time with an offset. Beyond the milliseconds a fraction is read, and left out. */
const RFC_3339 = /^\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(\.\d{1,9})?([Zz]|[+-]\d{2}:\d{2})$/;

/**
 * An instant as clocks outside write it (RFC 3339), in milliseconds; null for everything else, and for days that there
 * are not.
 */
export function readInstant(given: unknown): number | null {
  if (typeof given !== 'string' || !RFC_3339.test(given)) return null;
  const instant = Date.parse(given.toUpperCase());
  if (Number.isNaN(instant)) return null;
  // Date.parse takes the 31st of a short month for the 1st of the next one.
  const [year, month, day] = given.slice(0, 10).split('-').map(Number);
  return new Date(Date.UTC(year!, month! - 1, day)).getUTCDate() === day ? instant : null;
}

/**
 * The planned time of a Job that a Kubernetes CronJob made, milliseconds: its name ends with the minutes since 1970.
 * The annotation that says the same stands on the Job alone, where its pod cannot read it.
 * @returns null for a Job that a person made
 */
export function timeOfKubernetesJob(name: unknown): number | null {
  const [, minutes] = typeof name === 'string' ? (/^[a-z0-9.-]+-(\d{8,9})$/.exec(name) ?? []) : [];
  return minutes === undefined ? null : Number(minutes) * 60_000;
}
