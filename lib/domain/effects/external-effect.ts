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
