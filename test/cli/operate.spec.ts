import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { EXIT, runCommand } from '../../lib/cli/run-command.js';
import { DistributedCron, ReceiptService, type CronRun } from '../../lib/index.js';
import { closeApps, nextEvent, startApp } from '../integration/support/apps.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { until } from '../support/until.js';

const HOSTILE = '\x1b[2J the bank is closed';

let database: TestDatabase;

@Injectable()
class Jobs {
  constructor(private readonly receipts: ReceiptService) {}

  @DistributedCron('30 2 * * *', { name: 'report', timeZone: 'America/New_York', owner: 'finance', missed: 'all' })
  report(): void {}

  @DistributedCron('0 0 1 1 *', { name: 'broken', maxAttempts: 1 })
  break(): void {
    throw new Error(HOSTILE);
  }

  @DistributedCron('0 0 1 1 *', { name: 'stuck' })
  stay(run: CronRun): Promise<void> {
    return new Promise((resolve) => run.signal.addEventListener('abort', () => resolve()));
  }

  @DistributedCron('0 0 1 1 *', { name: 'payout', maxAttempts: 1 })
  async pay(): Promise<void> {
    await this.receipts.onceExternal('customer-1', () => Promise.reject(new Error('no answer')), {
      effect: 'payout',
      inDoubt: 'park',
    });
  }
}

/** The command as it is called, and what it says. */
async function command(...args: string[]) {
  const [said, complaints]: [string[], string[]] = [[], []];
  const code = await runCommand(args, {
    env: { DATABASE_URL: database.url },
    say: (text) => said.push(text),
    complain: (text) => complaints.push(text),
  });
  return { code, text: said.join('\n'), complaint: complaints.join('\n') };
}

async function json<Value = any>(...args: string[]): Promise<Value> {
  const { code, text, complaint } = await command(...args, '--json');
  expect({ complaint, isGood: code === EXIT.taken || code === EXIT.notDone }).toEqual({ complaint: '', isGood: true });
  return JSON.parse(text) as Value;
}

let app: Awaited<ReturnType<typeof startApp>>;
beforeAll(async () => {
  database = await createTestDatabase();
  // A schema that nobody has made yet.
  expect(await command('jobs')).toMatchObject({ code: EXIT.refused, complaint: expect.stringContaining('migrations') });
  expect(await command('migrate')).toMatchObject({ code: EXIT.taken });
  app = await startApp(database, { providers: [Jobs] }, { pollInterval: '100ms', migrate: false });
});
afterAll(async () => {
  await closeApps();
  await database.drop();
});

describe('the commands of an operator', () => {
  it('say of a run that died who had it, when, and why; and replay it', async () => {
    const dead = nextEvent(app, 'run.dead', ({ jobName }) => jobName === 'broken');
    const { fireTime } = await json('run', 'broken', '--by', 'ann', '--reason', 'to see');
    await dead;
    const { text } = await command('runs', 'broken');
    expect(text).toContain('dead');
    expect(text).toContain('the bank is closed');
    expect(text).not.toContain('\x1b');
    const explained = await command('explain', 'broken', fireTime);
    expect(explained.text).toContain('Runners started for it: 1');
    expect(await json('dead-letters')).toEqual([expect.objectContaining({ jobName: 'broken', attempt: 1 })]);
    expect((await command('doctor')).code).toBe(EXIT.notDone);
    const again = nextEvent(app, 'run.dead', ({ jobName }) => jobName === 'broken');
    expect(await command('replay', 'broken', fireTime)).toMatchObject({ code: EXIT.taken });
    await again;
    expect(await command('discard', 'broken')).toMatchObject({
      code: EXIT.usage,
      complaint: expect.stringContaining('--yes'),
    });
    expect(await json('discard', 'broken', '--dry-run')).toMatchObject({ runs: [{ jobName: 'broken' }], left: 0 });
    expect(await json('discard', 'broken', '--yes', '--reason', 'known')).toMatchObject({
      runs: [{ jobName: 'broken' }],
    });
    expect(await json('runs', 'broken', '--status', 'cancelled')).toHaveLength(1);
    expect(await json('audit', 'broken')).toEqual([
      expect.objectContaining({ action: 'discard' }),
      expect.objectContaining({ action: 'replay' }),
      expect.objectContaining({ action: 'run-now', actor: 'ann', reason: 'to see' }),
    ]);
  });

  it('stop a run that is under way on another process', async () => {
    const { fireTime } = await json('run', 'stuck');
    await until(async () =>
      expect(await json('runs', 'stuck')).toEqual([expect.objectContaining({ status: 'running' })]),
    );
    expect(await json('replicas')).toContainEqual(expect.objectContaining({ isAlive: true, jobs: 4, running: 1 }));
    expect(await command('cancel', 'stuck', fireTime, '--yes')).toMatchObject({
      text: 'It runs: its handler is told to stop.',
    });
    await until(async () =>
      expect(await json('runs', 'stuck')).toEqual([expect.objectContaining({ status: 'cancelled' })]),
    );
  });

  it('pause, resume, disable and enable a job on every replica', async () => {
    const state = async () => (await json('jobs')).find(({ name }: { name: string }) => name === 'report');
    await command('pause', 'report', '--until', '2099-12-24 00:00', '--reason', 'month end');
    expect(await state()).toMatchObject({ paused: { until: '2099-12-24T05:00:00.000Z', reason: 'month end' } });
    expect(await command('resume', 'report')).toMatchObject({ text: 'report goes on with what is due from now on.' });
    expect(await command('resume', 'report')).toMatchObject({ text: 'report was not paused.' });
    await command('disable', 'report');
    expect(await state()).toMatchObject({ enabled: false, nextFireTime: null });
    await command('enable', 'report');
    expect(await state()).toMatchObject({ enabled: true, nextFireTime: expect.any(String) });
  });

  it('show what comes next, skip it, and change the schedule', async () => {
    const { fireTimes } = await json('next', 'report', '--count', '2');
    expect(await json('skip', 'report', '--count', '2')).toEqual(fireTimes);
    expect(await command('unskip', 'report', fireTimes[0])).toMatchObject({ code: EXIT.taken });
    await command('override', 'report', '0 4 * * *');
    expect((await command('jobs')).text).toContain('active, overridden');
    expect((await json('next', 'report')).fireTimes[0]).not.toBe(fireTimes[0]);
    expect(await json('override', 'report', '--clear')).toEqual({ changed: true });
    expect(await json('override', 'report', '--clear')).toEqual({ changed: false });
    const { text } = await command('try', '30 2 * * *', '--time-zone', 'America/New_York', '--count', '400');
    expect(text.match(/the clock was changed before/g)).toHaveLength(2);
  });

  it('run past occurrences of a job that this process does not declare', async () => {
    const to = new Date(Date.now() - 86_400_000).toISOString();
    const from = new Date(Date.now() - 4 * 86_400_000).toISOString();
    expect(await json('backfill', 'report', from, to, '--dry-run')).toMatchObject({ id: null, willRun: 3 });
    const { id } = await json('backfill', 'report', from, to);
    await until(async () =>
      expect(await json('backfills')).toEqual([expect.objectContaining({ id, state: 'finished', done: 3 })]),
    );
    expect(await command('backfill', 'reprot', from, to)).toMatchObject({
      code: EXIT.refused,
      complaint: 'There is no job "reprot"; did you mean "report"?',
    });
    expect((await command('cancel-backfill', id, '--yes')).text).toBe('It is finished; 0 were not reached.');
  });

  it('name calls in doubt, and say what came of them', async () => {
    const dead = nextEvent(app, 'run.dead', ({ jobName }) => jobName === 'payout');
    await json('run', 'payout');
    await dead;
    expect(await json('in-doubt')).toEqual([expect.objectContaining({ entity: 'customer-1', effect: 'payout' })]);
    expect(await command('resolve', 'done', 'payout')).toMatchObject({
      code: EXIT.usage,
      complaint: expect.stringContaining('--reason'),
    });
    expect(
      (await command('resolve', 'done', 'payout', '--reason', 'their log has it', '--answer', '{"id":7}')).text,
    ).toBe('1 resolved as done; 0 left.');
    expect(await json('in-doubt')).toEqual([]);
  });

  it('switch flags', async () => {
    await command('flag', 'new-rates', 'off', '--reason', 'wrong rates');
    expect(await json('flags')).toEqual([expect.objectContaining({ name: 'new-rates', on: false })]);
    expect(await command('flag', 'new-rates', 'of')).toMatchObject({ code: EXIT.usage });
  });

  it('print the inventory as Markdown', async () => {
    expect((await command('inventory', '--markdown')).text).toContain(
      '| report | finance | 30 2 * * * | America/New_York | forbid | all | overlap | Jobs.report |',
    );
  });

  it('watch until they are interrupted', async () => {
    const said: string[] = [];
    const code = await runCommand(['watch'], {
      env: { DATABASE_URL: database.url },
      say: (text) => said.push(text),
      complain: (text) => said.push(text),
      interrupted: (stop) => void setTimeout(stop, 10),
    });
    expect({ code, looks: said.length }).toEqual({ code: EXIT.taken, looks: 1 });
    expect(said[0]).toContain('broken');
  });
});

describe('a wrong command says what is wrong', () => {
  it.each([
    [['frob'], EXIT.usage, "unknown command 'frob'"],
    [['pasue', 'report'], EXIT.usage, 'Did you mean pause?'],
    [['pause'], EXIT.usage, "missing required argument 'job'"],
    [['runs', '--frob'], EXIT.usage, "unknown option '--frob'"],
    [['runs', '--status', 'daed'], EXIT.usage, 'status'],
    [['runs', '--limit', '-1'], EXIT.usage, '--limit: expected a whole number'],
    [['runs', '--since', 'yesterday'], EXIT.usage, '--since: expected a time such as'],
    [
      ['explain', 'report', '2027-03-14 02:30'],
      EXIT.usage,
      'skip 2027-03-14 02:30; say the instant. What was planned then fires at the change, 2027-03-14T07:00:00Z',
    ],
    [
      ['explain', 'report', '2027-11-07 01:30'],
      EXIT.usage,
      'twice; say which: 2027-11-07T05:30:00Z or 2027-11-07T06:30:00Z',
    ],
    [['explain', 'report', '2027-02-30 01:30'], EXIT.usage, 'time: expected a time'],
    [['pause', 'reprot'], EXIT.refused, 'did you mean "report"?'],
    [['run', 'report', '--data', '{'], EXIT.usage, '--data: expected JSON'],
    [['jobs', '--schema', ''], EXIT.usage, '--schema'],
    [['next', 'nothing'], EXIT.refused, 'There is no job "nothing".'],
    [['discard', 'broken', '--yes'], EXIT.usage, '--reason: say why'],
    [['cancel', 'report', '2020-01-01T00:00:00Z', '--yes'], EXIT.refused, 'report'],
  ])('%j', async (args, code, complaint) => {
    expect(await command(...args)).toMatchObject({ code, complaint: expect.stringContaining(complaint) });
  });

  it('without a database', async () => {
    const complaints: string[] = [];
    const complain = (text: string) => complaints.push(text);
    expect(await runCommand(['jobs'], { env: {}, say: complain, complain })).toBe(EXIT.usage);
    const unreachable = { DATABASE_URL: 'postgres://127.0.0.1:1/x' };
    expect(await runCommand(['jobs'], { env: unreachable, say: complain, complain })).toBe(EXIT.unreachable);
    expect(complaints).toEqual([expect.stringContaining('DATABASE_URL'), expect.stringContaining('cannot be reached')]);
  });
});
