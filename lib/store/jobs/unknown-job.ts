import { nearestTo } from '../../domain/unknown-option.js';
import { UnknownJobError } from '../../errors/unknown-job.error.js';
import type { Query } from '../connection/query.js';

/** The error for a name that no job has, which says what was most likely meant. */
export async function unknownJob(query: Query, jobSchedule: string, name: string): Promise<UnknownJobError> {
  const known = await query<{ name: string }>(`
    select name
    from   ${jobSchedule}
    where  removed_at is null
    and    yields_to is null
    order  by name
    limit  1000`);
  return new UnknownJobError(name, 'missing', nearestTo(name, known.map((job) => job.name)));
}
