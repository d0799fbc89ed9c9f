import { describe, expect, it } from '@jest/globals';
import { databaseTrouble, isOutOfReach } from '../../lib/errors/database-trouble.js';

const coded = (code: string, message = 'it failed') => Object.assign(new Error(message), { code });
/** As TypeORM wraps what PostgreSQL says. */
const wrapped = (code: string) => Object.assign(new Error('it failed'), { driverError: coded(code) });

describe('what is wrong with the database', () => {
  it.each([
    // error → kind, whether it may pass, what to do
    [wrapped('42P01'), 'missing table', false, /run the migrations/],
    [wrapped('3F000'), 'missing table', false, /run the migrations/],
    [wrapped('42703'), 'other tables', false, /another version/],
    [coded('28P01'), 'password', false, /user and password/],
    [
      new Error('SASL: SCRAM-SERVER-FIRST-MESSAGE: client password must be a string'),
      'password',
      false,
      /user and password/,
    ],
    [coded('28000'), 'not let in', false, /pg_hba\.conf/],
    [coded('3D000'), 'missing database', false, /create it/],
    [wrapped('25006'), 'read-only', true, /primary/],
    [coded('53300'), 'too many connections', true, /max_connections/],
    [wrapped('53100'), 'full', false, /no room/],
    [wrapped('42501'), 'permission', false, /grant/],
    [wrapped('57P01'), 'restarting', true, /by itself/],
    [coded('57P03'), 'restarting', true, /by itself/],
    [wrapped('57014'), 'too slow', true, /statement_timeout/],
    [coded('ECONNREFUSED'), 'unreachable', true, /host and port/],
    [coded('ENOTFOUND'), 'unreachable', true, /host and port/],
    [new AggregateError([coded('ECONNREFUSED')]), 'unreachable', true, /host and port/],
    [wrapped('08006'), 'unreachable', true, /host and port/],
    [new Error('Connection terminated unexpectedly'), 'unreachable', true, /host and port/],
    [new Error('Query read timeout'), 'unreachable', true, /host and port/],
    [coded('DEPTH_ZERO_SELF_SIGNED_CERT'), 'encryption', false, /ssl/],
    [new Error('The server does not support SSL connections'), 'encryption', false, /ssl/],
    [new Error('Cannot connect', { cause: coded('3D000') }), 'missing database', false, /create it/],
  ])('%s is %s', (error, kind, passing, advice) => {
    expect(databaseTrouble(error)).toMatchObject({ kind, passing, advice: expect.stringMatching(advice) });
  });

  it.each([
    [new Error('division by zero')],
    [coded('22012')],
    [coded('0800')],
    [coded('08')],
    ['ECONNREFUSED'],
    [null],
    [
      new Proxy(
        {},
        {
          get: () => {
            throw new Error('no');
          },
        },
      ),
    ],
  ])('is not what %# says', (error) => {
    expect(databaseTrouble(error)).toBeNull();
  });

  it('is looked for in an error that holds itself, not for ever', () => {
    const error = new Error('round');
    error.cause = error;
    expect(databaseTrouble(error)).toBeNull();
  });

  it.each([
    ['ECONNREFUSED', true],
    ['57P03', true],
    ['53300', true],
    ['25006', false],
    ['42P01', false],
  ])('%s: nobody can reach it: %s', (code, outOfReach) => {
    expect(isOutOfReach(databaseTrouble(coded(code))!)).toBe(outOfReach);
  });
});
