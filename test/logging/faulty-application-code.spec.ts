import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { describe, expect, it } from '@jest/globals';

const library = (path: string) => JSON.stringify(new URL(`../../dist/lib/${path}`, import.meta.url).href);

const PREAMBLE = `
  import { Logger } from '@nestjs/common';
  const { OwnLogger } = await import(${library('observe/own-logger.js')});
  const { SchedulerEvents } = await import(${library('observe/scheduler-events.js')});
  const { readFailure } = await import(${library('runs/outcome.js')});
  const rejecting = async () => { throw new Error('no such collector'); };
  const quiet = { log() {}, warn() {}, error() {} };
  const bluebird = { then(_, reject) { queueMicrotask(() => reject(new Error('later'))); } };
`;

/** Runs it in a process of its own, which an unhandled rejection would end. */
async function inProcess(code: string): Promise<{ stdout: string; stderr: string }> {
  const end = `\n await new Promise((resolve) => setTimeout(resolve, 50)); console.log('still there');`;
  const args = ['--input-type=module', '--eval', PREAMBLE + code + end];
  const cwd = new URL('../../', import.meta.url);
  return promisify(execFile)(process.execPath, args, { cwd }).catch(
    (error: { stdout: string; stderr: string }) => error,
  );
}

describe('a process goes on after', () => {
  it.each([
    ['a logger that rejects', `Logger.overrideLogger({ log: rejecting, warn: rejecting, error: rejecting });`],
    ['a logger that throws', `Logger.overrideLogger({ ...quiet, log() { throw new Error('no such collector'); } });`],
    [
      'a logger that rejects when it is handed what was buffered',
      `Logger.attachBuffer(); Logger.overrideLogger({ ...quiet, log: rejecting }); setImmediate(() => Logger.flush());`,
    ],
  ])('%s, whose line goes to stderr', async (_what, override) => {
    const { stdout, stderr } = await inProcess(`${override} new OwnLogger().log('what was said');`);
    expect(stdout).toContain('still there');
    expect(stderr).toContain('what was said');
    expect(stderr).toContain('no such collector');
  });

  it.each([
    ['a listener of events that rejects', `rejecting`],
    ['a listener of events that returns another kind of promise, which fails', `() => bluebird`],
  ])('%s', async (_what, listener) => {
    const { stdout, stderr } = await inProcess(`
      const said = [];
      Logger.overrideLogger({ ...quiet, error: (text) => said.push(text) });
      const events = new SchedulerEvents();
      events.subscribe(${listener});
      events.emit({ type: 'scheduler.stopping' });
      setTimeout(() => console.log(said.join()), 20);`);
    expect(stdout).toContain('A listener of SchedulerEvents threw');
    expect(stdout).toContain('still there');
    expect(stderr).toBe('');
  });

  it('a retryable function that rejects, and counts as one that failed', async () => {
    const { stdout } = await inProcess(
      `console.log(readFailure(new Error('x'), rejecting, 0).complaint.message, readFailure(new Error('x'), () => bluebird, 0).complaint.message);`,
    );
    expect(stdout).toContain('expected an answer at once, got a promise expected an answer at once');
    expect(stdout).toContain('still there');
  });
});
