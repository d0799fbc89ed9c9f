import type { Benchmark, Effort, Figure } from './benchmark.js';
import { onServer } from './database.js';
import { inFreshProcess, median } from './sampling.js';
import type { ClaimSample } from './claim.sample.js';

/** Raw statements are to be at most this much faster. */
const REACH = 1 / 0.7;

/** What a claim with its rules (overlap, holds, flags, schedule, locks) costs beside a bare insert of the same rows. */
export const claim: Benchmark = {
  name: 'claim',
  about:
    'claims through ClaimService one by one and 100 at a time, as multiples of the time of raw INSERT … ON CONFLICT',

  async run({ quick, samples }: Effort): Promise<Figure[]> {
    return onServer(async (url) => {
      const taken: ClaimSample[] = [];
      for (let sample = 0; sample < samples; sample++)
        taken.push(await inFreshProcess<ClaimSample>('claim.sample.js', url, quick ? '5' : '300', String(sample)));
      const middle = (value: (sample: ClaimSample) => number) => median(taken.map(value));
      return [
        {
          name: 'claim.single',
          value: middle(({ single }) => single.ours / single.raw),
          unit: 'times',
          floor: 1,
          reach: REACH,
        },
        {
          name: 'claim.batch-of-100',
          value: middle(({ batch }) => batch.ours / batch.raw),
          unit: 'times',
          floor: 1,
          reach: REACH,
        },
        {
          name: 'claim.single-ms',
          value: middle(({ single }) => single.ours),
          unit: 'ms',
          floor: middle(({ single }) => single.raw),
          reach: 10,
        },
        {
          name: 'claim.batch-of-100-ms',
          value: middle(({ batch }) => batch.ours),
          unit: 'ms',
          floor: middle(({ batch }) => batch.raw),
          reach: 50,
        },
      ];
    });
  },
};
