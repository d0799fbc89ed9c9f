import { describe, expect, it } from '@jest/globals';
import { LeaseLostError } from '../../lib/errors/run.errors.js';
import { InFlightRun } from '../../lib/runs/in-flight-runs.js';
import { KeptCheckpoint } from '../../lib/runs/checkpoint.js';
import { aJob } from '../support/job.js';
import { aRun } from '../support/run.js';

/** A row whose answers the test gives, one by one. */
class SlowRow {
  saved: string | null = null;
  loads = 0;
  readonly writes: (string | null)[] = [];
  private readonly answers: ((how: 'saved' | 'refused' | Error) => void)[] = [];

  keepCheckpoint = (_run: unknown, json: string | null) =>
    new Promise<boolean>((resolve, reject) => {
      this.writes.push(json);
      this.answers.push((how) => {
        if (how instanceof Error) return reject(how);
        if (how === 'saved') this.saved = json;
        resolve(how === 'saved');
      });
    });

  checkpointOf = async () => {
    this.loads += 1;
    return this.saved === null ? null : { value: JSON.parse(this.saved) as unknown };
  };

  async answer(how: 'saved' | 'refused' | Error = 'saved'): Promise<void> {
    await turn();
    this.answers.shift()!(how);
    await turn();
  }
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

function checkpointOf(changes: Parameters<typeof aRun>[0] = { checkpoint: null }) {
  const run = new InFlightRun(aRun(changes), aJob('job', '* * * * *'));
  const row = new SlowRow();
  const refused = () => {
    run.loseLease('taken over');
    return run.leaseLost!;
  };
  return { run, row, checkpoint: new KeptCheckpoint(run, row as never, refused) };
}

describe('the checkpoint of an attempt', () => {
  it('is known from the claim, and asked for only when that did not bring it along', async () => {
    const none = checkpointOf({ checkpoint: null });
    expect(await none.checkpoint.get()).toBeUndefined();
    const carried = checkpointOf({ checkpoint: { value: null } });
    expect(await carried.checkpoint.get()).toBeNull();
    const large = checkpointOf({ checkpoint: undefined });
    large.row.saved = '[1]';
    expect([await large.checkpoint.get(), await large.checkpoint.get()]).toEqual([[1], [1]]);
    expect([none.row.loads, carried.row.loads, large.row.loads]).toEqual([0, 0, 1]);
  });

  it('is given as a copy each time', async () => {
    const { checkpoint } = checkpointOf({ checkpoint: { value: { page: 1 } } });
    (await checkpoint.get<{ page: number }>())!.page = 99;
    expect(await checkpoint.get()).toEqual({ page: 1 });
  });

  it('saves as it was at the call, one after the other, and the last call wins', async () => {
    const { checkpoint, row } = checkpointOf();
    const value = { page: 1 };
    const first = checkpoint.save(value);
    value.page = 2;
    const second = checkpoint.save(value);
    const seen = checkpoint.get();
    await turn();
    expect(row.writes).toEqual(['{"page":1}']);
    await row.answer();
    await row.answer();
    await Promise.all([first, second]);
    expect(await seen).toEqual({ page: 2 });
    expect(row.loads).toBe(0);
  });

  it('is forgotten by clear', async () => {
    const { checkpoint, row } = checkpointOf({ checkpoint: { value: 1 } });
    const cleared = checkpoint.clear();
    await row.answer();
    await cleared;
    expect(row.writes).toEqual([null]);
    expect(await checkpoint.get()).toBeUndefined();
  });

  it('is looked up again after a save whose answer was lost, and the next save goes on', async () => {
    const { checkpoint, row } = checkpointOf();
    const lost = checkpoint.save(1);
    const next = checkpoint.save(2);
    row.saved = '1';
    await row.answer(new Error('gone'));
    await expect(lost).rejects.toThrow('gone');
    const seen = checkpoint.get();
    await row.answer(new Error('gone'));
    await expect(next).rejects.toThrow('gone');
    expect(await seen).toBe(1);
    expect(row.loads).toBe(1);
  });

  it('rejects when the lease is lost while the database says nothing, also what waits behind it', async () => {
    const { checkpoint, row, run } = checkpointOf();
    const calls = [checkpoint.save(1), checkpoint.save(2), checkpoint.get()];
    const ends = Promise.allSettled(calls);
    await turn();
    run.loseLease('expired');
    expect((await ends).map((end) => end.status === 'rejected' && end.reason)).toEqual([
      expect.any(LeaseLostError),
      expect.any(LeaseLostError),
      expect.any(LeaseLostError),
    ]);
    await row.answer();
    expect(row.writes).toEqual(['1']);
    await expect(checkpoint.save(3)).rejects.toThrow(LeaseLostError);
    await expect(checkpoint.get()).rejects.toThrow(LeaseLostError);
  });

  it('that is refused tells that the run is lost', async () => {
    const { checkpoint, row, run } = checkpointOf();
    const saved = checkpoint.save(1);
    await Promise.all([row.answer('refused'), expect(saved).rejects.toThrow(LeaseLostError)]);
    expect(run.signal.aborted).toBe(true);
  });

  it('is part of the run: its end waits for a save that nobody awaited, and fails with one that failed', async () => {
    const one = checkpointOf();
    void one.checkpoint.save(1);
    const ended = one.run.end();
    await one.row.answer();
    await ended;
    const other = checkpointOf();
    void other.checkpoint.save(undefined);
    await expect(other.run.end()).rejects.toThrow(expect.objectContaining({ code: 'invalid-checkpoint' }));
  });

  it('is refused after the end', async () => {
    const { checkpoint, run } = checkpointOf();
    await run.end();
    await expect(checkpoint.save(1)).rejects.toThrow(expect.objectContaining({ code: 'after-run' }));
    await expect(checkpoint.get()).rejects.toThrow(expect.objectContaining({ code: 'after-run' }));
  });

  it('after a transaction is what that wrote; of two writes at a time the database knows which came last', async () => {
    const { checkpoint, row } = checkpointOf();
    checkpoint.wrote('5');
    expect(await checkpoint.get()).toBe(5);
    const saved = checkpoint.save(6);
    await turn();
    checkpoint.wrote('7');
    await row.answer();
    await saved;
    row.saved = '7';
    expect(await checkpoint.get()).toBe(7);
  });
});
