import { DataSource, type EntityManager } from 'typeorm';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { InvalidOptionsError, LeaseLostError, type CronRun } from '../../lib/index.js';
import { ReapingRepository } from '../../lib/runs/reaping.repository.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { blocked } from '../support/gate.js';
import { closeApps } from './support/apps.js';
import { inRun } from './support/in-run.js';

let database: TestDatabase;
let mine: DataSource;
beforeAll(async () => {
  database = await createTestDatabase();
  await database.query('create table effects (what text)');
  mine = await source(database.url).initialize();
});
beforeEach(() => database.query('truncate effects'));
afterEach(closeApps);
afterAll(async () => {
  await mine.destroy();
  await database.drop();
});

const source = (url: string, more: object = {}) =>
  new DataSource({ type: 'postgres', url, poolSize: 3, poolErrorHandler: () => {}, ...more });
const write = (what: string) => async (manager: EntityManager) => {
  await manager.query('insert into effects values ($1)', [what]);
  return what;
};
const written = async () =>
  (await database.query<{ what: string }>('select what from effects order by what')).map(({ what }) => what);
const receiptsOf = ({ jobName }: CronRun) =>
  database.query('select entity, effect, attempt, result from receipts where job_name = $1 order by entity', [jobName]);
const failing = (name: string) => async (manager: EntityManager) => {
  await write(name)(manager);
  throw new Error(name);
};

describe('a receipt on the application’s data source', () => {
  it('is one transaction with its effect there', async () => {
    await inRun(database, async ({ receipts, run }) => {
      const user = async (manager: EntityManager) => {
        expect(manager.dataSource).toBe(mine);
        return write('a')(manager);
      };
      expect(await receipts.once('a', user, { in: mine })).toEqual({ applied: true, result: 'a' });
      expect(await receipts.once('a', user, { in: mine })).toEqual({ applied: false, result: 'a' });
      await expect(receipts.once('b', failing('b'), { in: mine })).rejects.toThrow('b');
      expect(await written()).toEqual(['a']);
      expect(await receiptsOf(run)).toEqual([{ entity: 'a', effect: 'default', attempt: 1, result: 'a' }]);
    });
  });

  it('leaves nested transactions of the effect to savepoints, and the end to itself', async () => {
    await inRun(database, async ({ receipts, run }) => {
      await receipts.once('a', async (manager) => {
        await manager.transaction(write('inner'));
        await manager.transaction(failing('taken back')).catch(() => {});
      });
      const early = receipts.once('b', async (manager) => {
        await write('early')(manager);
        await manager.queryRunner!.commitTransaction();
      });
      await expect(early).rejects.toThrow('must leave its transaction open');
      const swallowed = receipts.once('c', async (manager) => {
        await write('half')(manager);
        await manager.query('no sql').catch(() => {});
      });
      await expect(swallowed).rejects.toThrow(/aborted/);
      expect(await written()).toEqual(['inner']);
      expect(await receiptsOf(run)).toMatchObject([{ entity: 'a' }]);
    });
  });

  it('does an effect again that a deadlock took back', async () => {
    await database.query('create table if not exists accounts (id int primary key, sum int)');
    await database.query('insert into accounts values (1, 0), (2, 0)');
    await inRun(database, async ({ receipts }) => {
      let tries = 0;
      let met!: () => void;
      const both = new Promise<void>((resolve) => (met = resolve));
      let first = 0;
      const move = (from: number, to: number) => async (manager: EntityManager) => {
        tries += 1;
        await manager.query('update accounts set sum = sum + 1 where id = $1', [from]);
        if ((first += 1) === 2) met();
        await both;
        await manager.query('update accounts set sum = sum + 1 where id = $1', [to]);
      };
      await Promise.all([
        receipts.once('1 to 2', move(1, 2), { in: mine }),
        receipts.once('2 to 1', move(2, 1), { in: mine }),
      ]);
      expect(tries).toBe(3);
    });
    expect(await database.query('select sum from accounts')).toEqual([{ sum: 2 }, { sum: 2 }]);
  });
});

describe('a receipt in a transaction of the application’s', () => {
  it('is committed with it, or not at all', async () => {
    await inRun(database, async ({ receipts, run }) => {
      const given = await mine.transaction(async (manager) => {
        await write('before')(manager);
        return receipts.once('a', write('a'), { in: manager });
      });
      expect(given).toEqual({ applied: true, result: 'a' });
      const undone = mine.transaction(async (manager) => {
        await receipts.once('b', write('b'), { in: manager });
        throw new Error('mine');
      });
      await expect(undone).rejects.toThrow('mine');
      expect(await mine.transaction((manager) => receipts.once('a', write('again'), { in: manager }))).toEqual({
        applied: false,
        result: 'a',
      });
      expect(await mine.transaction((manager) => receipts.once('b', write('b'), { in: manager }))).toEqual({
        applied: true,
        result: 'b',
      });
      expect(await written()).toEqual(['a', 'b', 'before']);
      expect(await receiptsOf(run)).toMatchObject([{ entity: 'a' }, { entity: 'b' }]);
    });
  });

  it('is taken back alone when its effect fails, though the application goes on and commits', async () => {
    await inRun(database, async ({ receipts, run }) => {
      await mine.transaction(async (manager) => {
        await receipts.once('a', failing('half'), { in: manager }).catch(() => {});
        const together = ['b', 'c', 'd'].map((name) =>
          receipts.once(name, name === 'c' ? failing(name) : write(name), { in: manager }),
        );
        await Promise.allSettled(together);
        await write('mine')(manager);
      });
      expect(await written()).toEqual(['b', 'd', 'mine']);
      expect(await receiptsOf(run)).toMatchObject([{ entity: 'b' }, { entity: 'd' }]);
    });
  });

  it('has what the application did about an error: an aborted transaction says so, a closed one, too', async () => {
    await inRun(database, async ({ receipts }) => {
      await mine
        .transaction(async (manager) => {
          await manager.query('no sql').catch(() => {});
          await expect(receipts.once('a', write('a'), { in: manager })).rejects.toMatchObject({ code: '25P02' });
          throw new Error('aborted');
        })
        .catch(() => {});
      let left!: EntityManager;
      await mine.transaction(async (manager) => void (left = manager));
      await expect(receipts.once('a', write('a'), { in: left })).rejects.toThrow(
        expect.objectContaining({ code: 'receipt-place' }),
      );
      expect(await written()).toEqual([]);
    });
  });

  it('keeps the run from being reaped until the application commits', async () => {
    await inRun(database, async ({ receipts, run }) => {
      const reapable = () =>
        database.query('select from job_runs where job_name = $1 for update skip locked', [run.jobName]);
      await mine.transaction(async (manager) => {
        await receipts.once('a', write('a'), { in: manager });
        expect(await reapable()).toEqual([]);
      });
      expect(await reapable()).toHaveLength(1);
    });
  });

  it('is refused when the run is another’s, and nothing of it is left to commit', async () => {
    await inRun(database, async ({ receipts, run }) => {
      await mine.transaction(async (manager) => {
        const late = receipts.once(
          'a',
          async (inner) => {
            await write('a')(inner);
            await database.query('update job_runs set attempt = 2 where job_name = $1', [run.jobName]);
          },
          { in: manager },
        );
        await expect(late).rejects.toThrow(LeaseLostError);
      });
      await expect(mine.transaction((manager) => receipts.once('b', write('b'), { in: manager }))).rejects.toThrow(
        LeaseLostError,
      );
      expect(await written()).toEqual([]);
      expect(await receiptsOf(run)).toEqual([]);
    });
  });

  describe.each(['REPEATABLE READ', 'SERIALIZABLE'] as const)('that is %s', (level) => {
    it('goes by the lease as it is now, not as its snapshot shows it', async () => {
      await inRun(database, async ({ receipts, run }) => {
        await database.query(
          `update job_runs set lease_until = clock_timestamp() + interval '1 second' where job_name = $1`,
          [run.jobName],
        );
        await mine.transaction(level, async (manager) => {
          await manager.query('select from job_runs');
          await database.query(
            `update job_runs set lease_until = clock_timestamp() + interval '1 minute' where job_name = $1`,
            [run.jobName],
          );
          await manager.query('select pg_sleep(1.1)');
          expect(await receipts.once('a', write('a'), { in: manager })).toEqual({ applied: true, result: 'a' });
          expect(await receipts.once('a', write('a'), { in: manager })).toEqual({ applied: false, result: 'a' });
          expect(
            await database.query('select from job_runs where job_name = $1 for update skip locked', [run.jobName]),
          ).toEqual([]);
        });
        expect(await written()).toEqual(['a']);
      });
    });

    it('is refused when the run was taken over after its snapshot', async () => {
      await inRun(database, async ({ receipts, run }) => {
        await mine.transaction(level, async (manager) => {
          await manager.query('select from job_runs');
          await database.query(`update job_runs set attempt = 2 where job_name = $1`, [run.jobName]);
          await expect(receipts.once('a', write('a'), { in: manager })).rejects.toThrow(LeaseLostError);
        });
        expect(await written()).toEqual([]);
      });
    });

    it('is given the serialization failure as it is, when another wrote the receipt meanwhile', async () => {
      await inRun(database, async ({ receipts }) => {
        let tries = 0;
        const losing = mine.transaction(level, async (manager) => {
          await manager.query('select from job_runs');
          await receipts.once('a', write('first'));
          return receipts.once('a', async () => void (tries += 1), { in: manager });
        });
        await expect(losing).rejects.toMatchObject({ code: '40001' });
        expect(tries).toBe(0);
        expect(await written()).toEqual(['first']);
      });
    });
  });
});

describe('a receipt inside another’s effect', () => {
  it('joins that one’s transaction when it is given its manager', async () => {
    await inRun(database, async ({ receipts, run }) => {
      await receipts.once('outer', async (manager) => {
        await write('outer')(manager);
        expect(await receipts.once('inner', write('inner'), { in: manager })).toEqual({
          applied: true,
          result: 'inner',
        });
        await receipts.once('bad', failing('bad'), { in: manager }).catch(() => {});
      });
      const undone = receipts.once('other', async (manager) => {
        await receipts.once('with it', write('with it'), { in: manager });
        throw new Error('undone');
      });
      await expect(undone).rejects.toThrow('undone');
      expect(await written()).toEqual(['inner', 'outer']);
      expect(await receiptsOf(run)).toMatchObject([{ entity: 'inner' }, { entity: 'outer' }]);
    });
  });

  it('is refused on another connection, and as the same one again', async () => {
    await inRun(database, async ({ receipts }) => {
      await receipts.once('outer', async (manager) => {
        await expect(receipts.once('inner', write('x'))).rejects.toThrow(
          expect.objectContaining({ code: 'nested-transaction' }),
        );
        await expect(receipts.once('inner', write('x'), { in: mine })).rejects.toThrow(
          expect.objectContaining({ code: 'nested-transaction' }),
        );
        await expect(mine.transaction((other) => receipts.once('inner', write('x'), { in: other }))).rejects.toThrow(
          expect.objectContaining({ code: 'nested-transaction' }),
        );
        await expect(receipts.once('outer', write('x'), { in: manager })).rejects.toThrow(
          /once\("outer"\).*once\("outer"\)/,
        );
        await expect(receipts.onceEach(['x'], () => {})).rejects.toThrow(/onceEach was called inside/);
        await expect(receipts.pending(['x']).next()).rejects.toThrow(/pending was called inside/);
      });
      expect(await written()).toEqual([]);
    });
  });
});

describe('what is no place for a receipt', () => {
  it('is refused in words', async () => {
    const other = await createTestDatabase();
    const elsewhere = await source(other.url).initialize();
    try {
      await inRun(database, async ({ receipts, run }) => {
        const refused = (where: unknown) =>
          receipts.once('a', write('a'), { in: where as DataSource }).then(
            () => 'accepted',
            (error: unknown) => error,
          );
        const words = async (where: unknown) => {
          const error = await refused(where);
          expect(error).toMatchObject({ code: 'receipt-place' });
          return (error as Error).message;
        };
        expect(await words(source(database.url))).toMatch(/not initialized: await its initialize/);
        expect(await words(elsewhere)).toMatch(/is not the database of the scheduler’s tables/);
        expect(await words(mine.manager)).toMatch(/without a transaction under way/);
        expect(await words(mine.createQueryRunner())).toMatch(/must be a DataSource or an EntityManager/);
        expect(await words('url')).toMatch(/must be a DataSource or an EntityManager/);
        expect(await words({ isInitialized: true, createQueryRunner: () => {}, options: { type: 'sqlite' } })).toMatch(
          /of type "sqlite", not "postgres"/,
        );
        const inTheirs = elsewhere.transaction((manager) => receipts.once('a', write('a'), { in: manager }));
        await expect(inTheirs).rejects.toThrow(/is not the database/);
        await expect(receipts.once('a', write('a'), { efect: 'b' } as object)).rejects.toThrow(InvalidOptionsError);
        expect(await receiptsOf(run)).toEqual([]);
      });
    } finally {
      await elsewhere.destroy();
      await other.drop();
    }
  });

  it('a role that may not write receipts, or whose frozen sessions the scheduler could not end, is told what to grant', async () => {
    const id = database.url.slice(-8);
    const as = async (name: string) => {
      await database.query(`create role ${name} login password 'x'`);
      const url = new URL(database.url);
      [url.username, url.password] = [name, 'x'];
      return url.href;
    };
    const [scheduler, role] = [`scheduler_${id}`, `application_${id}`];
    const schedulerUrl = await as(scheduler);
    const applicationUrl = await as(role);
    await database.query(`create schema s authorization ${scheduler}`);
    await database.query(`grant all on effects to ${role}`);
    const theirs = await source(applicationUrl).initialize();
    const own = { ...database, url: schedulerUrl };
    try {
      await inRun(
        own,
        async ({ receipts, run, app }) => {
          const once = () => receipts.once('a', write('a'), { in: theirs });
          await expect(once()).rejects.toThrow(
            `comes as role "${role}", which may not write receipts: grant it usage on schema s`,
          );
          await database.query(`grant usage on schema s to ${role}`);
          await database.query(`grant select, insert, update on s.receipts, s.job_runs to ${role}`);
          // The receipts of pages hold their pages.
          await expect(once()).rejects.toThrow('and "s"."job_pages"');
          await database.query(`grant select, insert, update on s.job_pages to ${role}`);
          await database.query('revoke execute on all functions in schema s from public');
          await expect(once()).rejects.toThrow('execute on its functions');
          await database.query(`grant execute on all functions in schema s to ${role}`);
          await expect(once()).rejects.toThrow(
            /whose sessions the scheduler’s role may not end.*grant pg_signal_backend/,
          );
          await database.query(`grant pg_signal_backend to ${scheduler}`);
          expect(await once()).toEqual({ applied: true, result: 'a' });

          // Two sessions hold the receipt's lock when the lease ends: the reaper ends the one it may, and leaves a
          // superuser's alone.
          let letGo!: () => void;
          const held = new Promise<void>((resolve) => (letGo = resolve));
          const hold = async (manager: EntityManager, lock: () => Promise<unknown>, locked: () => void) => {
            await lock();
            locked();
            await held;
            await manager.query('select 1');
          };
          const key = 's.receipt_lock_1($1, $2, $3, null)';
          const frozen = (dataSource: DataSource, lock: (manager: EntityManager) => Promise<unknown>) => {
            let outcome!: Promise<string>;
            const locked = new Promise<void>((resolve) => {
              outcome = dataSource
                .transaction((manager) => hold(manager, () => lock(manager), resolve))
                .then(
                  () => 'committed',
                  () => 'ended',
                );
            });
            return locked.then(() => [outcome] as const);
          };
          const [application] = await frozen(theirs, (manager) => receipts.once('frozen', () => {}, { in: manager }));
          const [superuser] = await frozen(mine, (manager) =>
            manager.query(`select pg_advisory_xact_lock_shared(${key})`, [
              run.jobName,
              run.fireTime.toISOString(),
              '1',
            ]),
          );
          await database.query(`update s.job_runs set lease_until = clock_timestamp() where job_name = $1`, [
            run.jobName,
          ]);
          await app.get(ReapingRepository).reap([{ name: run.jobName, maxAttempts: 3, overlap: 'forbid' }], 10);
          letGo();
          expect(await Promise.all([application, superuser])).toEqual(['ended', 'committed']);
        },
        { schema: 's' },
      );
    } finally {
      await theirs.destroy();
      await closeApps();
      await database.query('drop schema s cascade');
      await database.query(`drop owned by ${scheduler}, ${role}`);
      await database.query(`drop role ${scheduler}, ${role}`);
    }
  });

  it('a pool whose only connection is the application’s transaction still tells where it leads', async () => {
    const narrow = await source(database.url, { poolSize: 1 }).initialize();
    await inRun(database, async ({ receipts }) => {
      expect(await narrow.transaction((manager) => receipts.once('a', write('a'), { in: manager }))).toMatchObject({
        applied: true,
      });
    });
    await narrow.destroy();
  });
});

describe('two of one transaction’s receipts', () => {
  it('wait for a receipt that another transaction is about to write', async () => {
    await inRun(database, async ({ receipts }) => {
      let letGo!: () => void;
      const held = new Promise<void>((resolve) => (letGo = resolve));
      const first = mine.transaction(async (manager) => {
        await receipts.once('a', write('a'), { in: manager });
        await held;
      });
      await new Promise((resolve) => setTimeout(resolve, 50));
      const second = mine.transaction((manager) => receipts.once('a', write('a again'), { in: manager }));
      await blocked(database, 1);
      letGo();
      await first;
      expect(await second).toEqual({ applied: false, result: 'a' });
    });
  });
});
