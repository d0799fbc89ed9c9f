import { describe, expect, it } from '@jest/globals';
import { SchedulerEvents } from '../../lib/observe/scheduler-events.js';
import { FlagAnswers } from '../../lib/runs/flag-answers.js';

function answersOf(isOn: (flag: string) => boolean | Promise<boolean>): FlagAnswers {
  return new FlagAnswers({ featureFlags: { isOn } }, new SchedulerEvents());
}

describe('what people are shown of a provider’s answers', () => {
  it('is what it says, and when it was asked; within seconds it is not asked again', async () => {
    let asked = 0;
    const answers = answersOf((flag) => (asked++, flag === 'mails'));
    const before = Date.now();
    const shown = await answers.shown(['mails', 'exports', 'mails']);
    expect(Object.fromEntries(shown)).toEqual({
      mails: { on: true, problem: null, askedAt: expect.any(Date) },
      exports: { on: false, problem: null, askedAt: expect.any(Date) },
    });
    expect(shown.get('mails')!.askedAt.getTime()).toBeGreaterThanOrEqual(before);
    await answers.shown(['mails', 'exports']);
    expect(asked).toBe(2);
  });

  it('is the answer that a claim got', async () => {
    let asked = 0;
    const answers = answersOf(() => (asked++, false));
    await answers.off(['mails', null]);
    expect((await answers.shown(['mails'])).get('mails')).toMatchObject({ on: false, problem: null });
    expect(asked).toBe(1);
  });

  it('of one that throws, or hangs, is why its flag is off; the others are shown all the same', async () => {
    const answers = answersOf((flag) => {
      if (flag === 'throws') throw new Error('gone');
      return flag === 'hangs' ? new Promise<boolean>(() => {}) : true;
    });
    const shown = await answers.shown(['throws', 'hangs', 'works']);
    expect(Object.fromEntries(shown)).toMatchObject({
      throws: { on: false, problem: 'gone' },
      hangs: { on: false, problem: 'no answer about the flag "hangs" within 1000 ms' },
      works: { on: true, problem: null },
    });
    // It is not waited for a second time.
    expect((await answers.shown(['hangs'])).get('hangs')).toEqual(shown.get('hangs'));
  });

  it('is nothing without a provider', async () => {
    const answers = new FlagAnswers({ featureFlags: null }, new SchedulerEvents());
    expect(await answers.shown(['mails'])).toEqual(new Map());
  });
});
