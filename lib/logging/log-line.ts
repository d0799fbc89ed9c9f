/** One line of log. */
export interface LogLine {
  readonly level: 'debug' | 'log' | 'warn' | 'error';
  readonly text: string;
  readonly stack?: string | undefined;
}
