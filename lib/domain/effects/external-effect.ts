/** What is to become of an effect outside the database when nobody knows whether it happened. */
export type InDoubtPolicy =
  /** A person decides. */
  | 'park'
  /** It is sent again under the same key: the receiver drops what it has. */
  | 'resend';

/**
 * Where a receipt stands. One of an effect in the database is only ever `done`. One of a call is `open` from before it
 * until its answer is written; `in_doubt`: a person has to find out; `undone`: it surely did not happen.
 */
export type ReceiptState = 'open' | 'done' | 'in_doubt' | 'undone';

/** A receipt that was there when a call was to be made. */
export interface FoundReceipt {
  readonly state: ReceiptState;
  /** Of a call; otherwise of an effect in the database. */
  readonly external: boolean;
}

/** What follows from a receipt that is there. */
export type NextStep =
  /** It happened. */
  | 'skip'
  /** It surely did not happen. */
  | 'call'
  | 'call again'
  | 'park'
  /** It is a person's already. */
  | 'leave'
  /** It stands for something else. */
  | 'refuse';

/** @param found by the owner of the run, which has no call for it under way: one that is open was cut off */
export function nextStep({ state, external }: FoundReceipt, policy: InDoubtPolicy): NextStep {
  if (!external) return 'refuse';
  switch (state) {
    case 'done':
      return 'skip';
    case 'undone':
      return 'call';
    case 'open':
      return policy === 'resend' ? 'call again' : 'park';
    case 'in_doubt':
      return policy === 'resend' ? 'call again' : 'leave';
  }
}
