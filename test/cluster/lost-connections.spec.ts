import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import pg from 'pg';
import { Cluster, SLACK_MS } from './harness/cluster.js';
import { EVERY_SECOND } from './harness/crons.js';
import { eventually } from './harness/eventually.js';
import type { Attempt } from './replica/messages.js';
import type { ReplicaJob } from './replica/settings.js';

describe('replicas whose sessions are ended by the server', () => {
  let cluster: Cluster;
  beforeEach(async () => void (cluster = await Cluster.create()));
  afterEach(() => cluster.end());

  it('B21 G5 G14 an occurrence that throws, one whose process dies and one whose completion is cut off: the fourth runs on time', async () => {
    const jobs: ReplicaJob[] = [
      { name: 'job', cron: '*/5 * * * * *', lease: '5s', backoff: '1h', steps: [{ gate: 'running' }] },
    ];
    await cluster.startAll(['one', 'two'], { jobs });
    const throws = await cluster.anyAtGate('running');
    const later = (slots: number): Omit<Attempt, 'attempt'> => ({
      jobName: 'job',
      fireTime: new Date(throws.at.fireTime.getTime() + slots * 5_000),
    });
    throws.replica.open('running', throws.at, [{ fail: 'no luck today' }]);
    await throws.replica.event('run.failed', throws.at);

    const dies = await cluster.anyAtGate('running', later(1));
    await dies.replica.kill();
    await cluster.start('three', { jobs });
    const again = await cluster.anyAtGate('running', { ...later(1), attempt: 2 });
    again.replica.open('running', again.at);

    const cutOff = await cluster.anyAtGate('running', later(2));
    await whileRunIsLocked(cutOff.at, async () => {
      cutOff.replica.open('running', cutOff.at);
      await eventually(
        'its completion to be cut off',
        async () => (await endSessions(`state = 'active' and query like '%job_run_end_1%'`)) > 0,
      );
      await endSessions('true');
    });
    await cutOff.replica.event('run.completed', cutOff.at);

    const onTime = await cluster.anyAtGate('running', later(3));
    onTime.replica.open('running', onTime.at);
    await onTime.replica.event('run.completed', onTime.at);
    const runs = await Promise.all([0, 1, 2, 3].map((slot) => cluster.ledger.run(later(slot))));
    expect(runs.map(({ status, attempt }) => [status, attempt])).toEqual([
      ['failed', 1],
      ['done', 2],
      ['done', 1],
      ['done', 1],
    ]);
    expect(runs[3]!.startedAt!.getTime() - runs[3]!.fireTime.getTime()).toBeLessThan(SLACK_MS);
  });

  it('B34 G12 live on when all sessions are ended, again and again: no occurrence is lost, none has two effects', async () => {
    const jobs = [
      {
        name: 'job',
        cron: EVERY_SECOND,
        backoff: 200,
        maxAttempts: 10,
        steps: [{ receipt: 'a' }, { pauseMs: 100 }, { receipt: 'b' }],
      },
    ];
    const replicas = await cluster.startAll(['one', 'two'], { jobs });
    const completion = (after: number) =>
      eventually('another run to be done', async () =>
        (await cluster.ledger.runs('job')).find(
          ({ fireTime, status }) => fireTime.getTime() > after && status === 'done',
        ),
      );
    let { fireTime } = await completion(0);
    const first = fireTime.getTime();
    for (let time = 0; time < 4; time++) {
      expect(await endSessions('true')).toBeGreaterThan(0);
      ({ fireTime } = await completion((await cluster.ledger.now()).getTime()));
    }
    const last = fireTime.getTime();

    const occurrences = await eventually(
      'every occurrence to be done',
      async () => {
        const rows = (await cluster.ledger.runs('job')).filter(
          (run) => first <= run.fireTime.getTime() && run.fireTime.getTime() <= last,
        );
        return rows.every(({ status }) => status === 'done') && rows.length === (last - first) / 1_000 + 1 && rows;
      },
      { seen: () => cluster.ledger.runs('job') },
    );
    for (const { fireTime } of occurrences) {
      expect((await cluster.ledger.effects('job', fireTime)).map(({ entity }) => entity)).toEqual(['a', 'b']);
    }
    expect(replicas.map(({ isAlive }) => isAlive)).toEqual([true, true]);
    const afterwards = await cluster.ledger.run({ jobName: 'job', fireTime: new Date(last) });
    expect(afterwards.startedAt!.getTime() - last).toBeLessThan(SLACK_MS);
  });

  /** Ends the replicas' sessions that match. @returns how many there were */
  async function endSessions(condition: string): Promise<number> {
    const ended = await cluster.database.query(
      `select pg_terminate_backend(pid) from pg_stat_activity
       where  datname = current_database()
       and    (application_name like 'nestjs-distributed-cron%' or application_name = 'replica effects')
       and    ${condition}`,
    );
    return ended.length;
  }

  async function whileRunIsLocked({ jobName, fireTime }: Attempt, work: () => Promise<void>): Promise<void> {
    const client = new pg.Client({ connectionString: cluster.database.url });
    await client.connect();
    try {
      await client.query('begin');
      await client.query('select from job_runs where job_name = $1 and fire_time = $2 for update', [
        jobName,
        fireTime.toISOString(),
      ]);
      await work();
    } finally {
      await client.end();
    }
  }
});
