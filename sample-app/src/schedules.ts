/** Every job's expression. */
export interface Crons {
  readonly statements: string;
  readonly balances: string;
  readonly bank: string;
  readonly report: string;
}

/**
 * A real application writes its expressions into the decorators. This one's jobs run every few seconds, and a phase
 * moves them all, so that the first mailing of a demo need not wait for the next quarter of a minute.
 * @param phase seconds, the same on all replicas
 */
export function cronsOf(phase: number): Crons {
  const every = (interval: number, after: number): string => {
    const first = (phase + after) % interval;
    const seconds = Array.from({ length: 60 / interval }, (_, index) => first + index * interval);
    return `${seconds.join(',')} * * * * *`;
  };
  return { statements: every(15, 0), balances: every(3, 1), bank: every(15, 6), report: every(15, 12) };
}

export const CRONS = cronsOf(Number(process.env.SCHEDULE_PHASE ?? 0));

/** How long a claim holds without a heartbeat. Minutes are usual; seconds let a person watch. */
export const LEASE_MS = 3_000;

/** How often the reaper looks at least. */
export const REAPER_PASS_MS = 1_000;
