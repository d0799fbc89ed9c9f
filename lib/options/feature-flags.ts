import { expected, type Rule } from './option-rules.js';

/** What the application knows about its feature flags. */
export interface FeatureFlags {
  /**
   * Asked right before each claim of a job with a `flag`, once for all jobs of the batch that name it, and about once a
   * `pollInterval` while one with `flagOff: 'cancel'` runs. Anything but true is off; so is an error, and no answer
   * within a second.
   */
  isOn(flag: string): boolean | Promise<boolean>;
}

export const featureFlags: Rule<FeatureFlags> = (given) =>
  typeof given === 'object' && given !== null && typeof (given as FeatureFlags).isOn === 'function'
    ? { value: given as FeatureFlags }
    : expected('an object with the method isOn', given);
