import { EndWriter } from '../../lib/runs/end-writer.js';

/** Writes each end by itself, to a store that the test makes up. */
export function endsAlone(store: object): EndWriter {
  return new EndWriter(store as never);
}
