import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { randomBytes } from 'node:crypto';
import { runCommand } from '../../lib/cli/run-command.js';
import { Cluster, type ReplicaPlan } from './harness/cluster.js';
import { eventually } from './harness/eventually.js';

const SCHEMA = 'of order 2';

describe('a role that runs, and owns nothing', () => {
  const id = randomBytes(4).toString('hex');
  const [migrator, runner] = [`migrator-${id}`, `runner-${id}`];
  let cluster: Cluster;
  let plan: ReplicaPlan;
  beforeEach(async () => {
    cluster = await Cluster.create({ schema: SCHEMA });
    plan = {
      url: urlOf(runner),
      jobs: [
        { name: 'steady', cron: '* * * * * *', steps: [{ receipt: 'steady' }] },
        {
          name: 'long',
          cron: '0 0 29 2 *',
          steps: [{ receipt: 'first' }, { receipt: 'second', inside: [{ effect: 'second' }, { gate: 'inside' }] }],
        },
      ],
      scheduler: { migrate: false, logging: true, retention: '40d' },
    };
  });
  afterEach(() =>
    cluster.end(() =>
      cluster.database.query(
        `drop owned by "${migrator}", "${runner}" cascade; drop role "${migrator}"; drop role "${runner}"`,
      ),
    ),
  );

  const urlOf = (role: string) => Object.assign(new URL(cluster.database.url), { username: role, password: 'p' }).href;
  async function command(args: string[], url = cluster.database.url): Promise<string> {
    const said: string[] = [];
    const complain = (text: string) => void said.push(text);
    const code = await runCommand(args, { env: { DATABASE_URL: url }, say: complain, complain });
    expect([code, said.join('\n')]).toEqual([0, said.join('\n')]);
    return said.join('\n');
  }

  it('claims, runs, writes receipts, ends the transactions of the frozen, makes partitions and drops old ones', async () => {
    const { database, ledger } = cluster;
    const roles = await command(['sql', 'roles', '--schema', SCHEMA, '--migrator', migrator, '--runner', runner]);
    await database.query(roles);
    await database.query(`alter role "${migrator}" password 'p'; alter role "${runner}" password 'p'`);
    await database.query(`grant select, insert on effects to "${runner}"`);
    await command(['migrate', '--schema', SCHEMA], urlOf(migrator));

    const [first, second] = await cluster.startAll(['first', 'second'], plan);
    const { fireTime } = await first!.call<{ fireTime: Date }>('SchedulerService', 'runNow', 'long', {
      by: 'ops',
      reason: 'a test',
    });
    const { replica: owner } = await cluster.anyAtGate('inside', { jobName: 'long', fireTime });
    owner.freeze();
    const other = owner === first ? second! : first!;
    const again = await other.atGate('inside', { jobName: 'long', fireTime, attempt: 2 });
    other.open('inside', again);
    await other.event('run.completed', { jobName: 'long', fireTime });
    owner.thaw();
    expect((await ledger.effects('long')).map(({ entity, attempt }) => [entity, attempt])).toEqual([
      ['first', 1],
      ['second', 2],
    ]);

    await database.query(
      `select "${SCHEMA}".partitions_make_1(array[timestamptz '2020-01-01']);
       drop table "${SCHEMA}".job_pages_${await lastMonthMade()}`,
    );
    await other.call('PartitionsService', 'makeAhead');
    await other.call('RetentionService', 'forget');
    await eventually(
      'the old month to be gone',
      async () => !(await partitions()).some((name) => name.includes('2020')),
    );
    expect(await partitions()).toContain(`job_pages_${await lastMonthMade()}`);

    const steady = (await ledger.effects('steady')).length;
    await eventually('another run', async () => (await ledger.effects('steady')).length > steady);
    expect(other.heard('loop.failed')).toEqual([]);
    expect(
      await database.query(
        `select relname as name from pg_class where relowner = $1::regrole
         union all select proname from pg_proc where proowner = $1::regrole`,
        [`"${runner}"`],
      ),
    ).toEqual([]);
  });

  it('is told at its start which right is missing, in words that grant it', async () => {
    const { database } = cluster;
    const roles = await command(['sql', 'roles', '--schema', SCHEMA, '--migrator', migrator, '--runner', runner]);
    // An installation with one role, whose tables and functions change hands.
    await command(['migrate', '--schema', SCHEMA]);
    await database.query(roles);
    await database.query(roles);
    await database.query(`alter role "${runner}" password 'p'`);
    await database.query(`grant select, insert on effects to "${runner}"`);
    const schema = `"${SCHEMA}"`;
    await database.query(
      `revoke delete on ${schema}.job_runs from "${runner}";
       revoke usage on schema ${schema} from "${runner}"`,
    );
    const refused = cluster.fork('refused', plan);
    await refused.exit;
    const [said] = /Role "runner-\w+" lacks rights .*/.exec(refused.said)!;
    const grants = said.match(/grant [^;]+;/g)!;
    expect(grants).toHaveLength(2);
    await database.query(grants.join(' '));
    const replica = await cluster.start('let in', plan);
    await replica.event('run.completed', { jobName: 'steady' });
  });

  const partitions = async () =>
    (
      await cluster.database.query<{ name: string }>(
        `select relname as name from pg_class where relnamespace = $1::regnamespace and relkind = 'r' and relname ~ '_\\d{4}_\\d\\d$' order by 1`,
        [`"${SCHEMA}"`],
      )
    ).map(({ name }) => name);
  const lastMonthMade = async () => {
    const [row] = await cluster.database.query<{ month: string }>(
      `select to_char(date_trunc('month', now() at time zone 'UTC') + interval '1 month', 'YYYY_MM') as month`,
    );
    return row!.month;
  };
});
