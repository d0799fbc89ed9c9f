import { createHash } from 'node:crypto';
import { readNumber, readRange, readStep, refused, type CronField, type CronSource } from './cron-fields.js';

const HASHED = /^h(?:\((\d+)-(\d+)\))?(?:\/(\d+))?$/i;

/** Every month has these, so that a job spread over a month runs in each of them (as in Jenkins). */
const LAST_COMMON_DAY = 28;

/**
 * The values of `H`, `H(0-29)`, `H/15` or `H(0-29)/10`, or null when the item is none of them. They depend on the job's
 * name and the field alone, so that every replica and every release agrees.
 */
export function readHashed(field: CronField, item: string, source: CronSource): readonly number[] | null {
  const match = HASHED.exec(item);
  if (!match) {
    return null;
  }
  if (!source.jobName) {
    throw refused(source, `${field.name} "${item}" needs the name of a job to be spread by: give jobName`);
  }
  const [, first, last, every] = match;
  const from = first === undefined ? field.min : readNumber(field, first, source);
  const to = last === undefined ? lastCommon(field) : readNumber(field, last, source);
  if (from > to) {
    throw refused(source, `${field.name} "${item}" goes down from ${from} to ${to}`);
  }
  const size = to - from + 1;
  const hash = hashOf(source.jobName, field);
  if (every === undefined) {
    const value = from + (hash % size);
    return readRange(field, value, value, 1);
  }
  const step = readStep(field, every, source);
  return readRange(field, from + (hash % Math.min(step, size)), to, step);
}

/** True when the fire times of the expression depend on its job's name. */
export function isSpreadByName(expression: string): boolean {
  return expression.split(/[\s,]+/).some((item) => HASHED.test(item));
}

function lastCommon(field: CronField): number {
  return field.key === 'dayOfMonth' ? LAST_COMMON_DAY : field.last;
}

/** Never to be changed: it would move every job that uses `H`. */
function hashOf(jobName: string, field: CronField): number {
  return createHash('sha256').update(`${jobName}\n${field.key}`).digest().readUInt32BE(0);
}
