import type { JobDefinition } from '../domain/job-definition.js';

/** A group has one limit: each claim would go by that of its own job, and the smaller one would be none. */
export function problemsOfGroups(jobs: readonly JobDefinition[]): string[] {
  const first = new Map<string, JobDefinition>();
  return jobs.flatMap((job) => {
    const { concurrencyGroup: group, name, declaredBy } = job;
    if (!group) return [];
    const other = first.get(group.name);
    if (!other) first.set(group.name, job);
    const limit = other?.concurrencyGroup?.limit ?? group.limit;
    if (limit === group.limit) return [];
    return [`${declaredBy}: job "${name}": concurrencyGroup "${group.name}" has limit ${group.limit} here, and ${limit} for job "${other!.name}" (${other!.declaredBy}): give all its jobs the same.`];
  });
}
