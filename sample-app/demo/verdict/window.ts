/** What is judged: fire times later than `from`, up to and including `to`. By the database's clock. */
export interface Window {
  readonly from: Date;
  readonly to: Date;
}
