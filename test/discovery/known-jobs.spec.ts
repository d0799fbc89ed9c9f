import { beforeEach, describe, expect, it } from '@jest/globals';
import { KnownJobs } from '../../lib/jobs/known-jobs.js';
import { aJob } from '../support/job.js';

const handler = async () => undefined;
const made = (name: string) => ({ definition: aJob(name, '0 4 * * *'), handler });

let known: KnownJobs;
beforeEach(() => {
  known = new KnownJobs();
  known.declare({
    jobs: [{ definition: aJob('job', '0 3 * * *', { previously: ['old'] }), handler }],
    handlers: new Map(),
  });
});

const names = () =>
  known
    .runnable()
    .map(({ definition }) => definition.name)
    .sort();

describe('the jobs an instance knows', () => {
  it('are run under their former names, too, and listed under their own', () => {
    expect(names()).toEqual(['job', 'old']);
    expect(known.get('old')!.definition).toMatchObject({ name: 'old', previously: ['old'] });
    expect(known.list().map(({ definition }) => definition.name)).toEqual(['job']);
  });

  it('are there for their last runs when they are dropped, and each name once, whatever else has it', () => {
    for (const name of ['made', 'old']) known.put(made(name));
    for (const name of ['made', 'old']) known.drop(name);
    expect(names()).toEqual(['job', 'made', 'old']);
    for (const { definition } of known.runnable()) expect(known.get(definition.name)!.definition).toBe(definition);
    expect(known.list()).toHaveLength(1);
  });
});
