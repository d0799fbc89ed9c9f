import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';

/**
 * A name for this process that no other start of a process ever has: three containers may share a host name, and a
 * restarted one may get the old process id again.
 */
export function createInstanceId(): string {
  return `${hostname().slice(0, 64)}-${process.pid}-${randomBytes(4).toString('hex')}`;
}
