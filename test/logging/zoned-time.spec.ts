import { expect, it } from '@jest/globals';
import fc from 'fast-check';
import { zonedTime } from '../../lib/observe/job-wording.js';

it('the time on the wall is what Intl says, in every zone and through every change of a clock', () => {
  const zone = fc.constantFrom(...Intl.supportedValuesOf('timeZone'));
  const instant = fc.date({
    min: new Date('2000-01-01T00:00:00Z'),
    max: new Date('2040-01-01T00:00:00Z'),
    noInvalidDate: true,
  });
  fc.assert(
    fc.property(zone, instant, (timeZone, at) => {
      // Swedish writes dates as ISO 8601 does.
      const expected = new Intl.DateTimeFormat('sv-SE', { timeZone, dateStyle: 'short', timeStyle: 'medium' }).format(
        at,
      );
      expect(zonedTime(at, timeZone)).toBe(expected);
    }),
    {
      examples: [
        ['Europe/Berlin', new Date('2026-03-29T00:59:59Z')],
        ['Europe/Berlin', new Date('2026-03-29T01:00:00Z')],
        ['Asia/Kathmandu', new Date('2026-12-31T18:15:00Z')],
      ],
      numRuns: 300,
    },
  );
});
