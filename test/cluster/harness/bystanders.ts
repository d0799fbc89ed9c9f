import { setTimeout as pause } from 'node:timers/promises';
import type { ReplicaJob } from '../replica/settings.js';
import type { Cluster, ReplicaPlan } from './cluster.js';
import type { Replica } from './replica.js';

/** How long one may wait for a lock that a frozen process holds. */
const MOST_WAIT_MS = 2_000;
const LOOK_EVERY_MS = 100;
const LEAVE_WITHIN_MS = 3_000;

/** For what the machine does slowly: nobody is judged by it. */
const PATIENCE_MS = 90_000;

/** Two occurrences: the first may have been claimed when the process was frozen. */
const OCCURRENCES = 2;

interface Wait {
  readonly waitedMs: number;
  readonly waiting: string;
  readonly holding: string;
}

/** Other jobs and other replicas, which have nothing to do with a process that is frozen. */
export class Bystanders {
  private next: Replica | null = null;

  constructor(
    private readonly cluster: Cluster,
    private readonly jobs: readonly string[],
    private readonly newcomer: ReplicaPlan,
  ) {}

  /**
   * Has the next newcomer load what it needs, so that it starts as soon as a process is frozen, also on a busy machine.
   * @param jobs what it has beside the others
   */
  async standBy(jobs: readonly ReplicaJob[]): Promise<void> {
    this.next = await this.cluster
      .fork('newcomer', { ...this.newcomer, jobs: [...this.newcomer.jobs, ...jobs], standsBy: true })
      .standingBy();
  }

  /**
   * Resolves when each job has run twice more and another replica has started.
   * @param frozen the sessions of the frozen process
   * @param decided a job whose next occurrences must have been decided, too
   * @throws as soon as somebody has waited for too long for a lock that one of them holds
   */
  async goOn(frozen: readonly number[], decided?: string): Promise<void> {
    const since = await this.cluster.ledger.now();
    const newcomer = this.next!;
    newcomer.begin();
    try {
      const end = performance.now() + PATIENCE_MS;
      for (;;) {
        await this.requireNoWait(frozen);
        const behind = await this.behind(since, decided);
        const ready = newcomer.heard('scheduler.started').length > 0;
        if (ready && behind.length === 0) return;
        if (!newcomer.isAlive)
          throw new Error(`A replica could not start while a process was frozen: ${newcomer.said}`);
        if (performance.now() > end)
          throw new Error(
            `While a process was frozen ${[...behind.map((job) => `${job} was not decided`), ...(ready ? [] : ['no replica could start'])].join(', ')}.`,
          );
        await pause(LOOK_EVERY_MS);
      }
    } finally {
      await this.leave(newcomer);
    }
  }

  private async requireNoWait(frozen: readonly number[]): Promise<void> {
    const [wait] = await this.cluster.database.query<Wait>(
      `select extract(epoch from clock_timestamp() - l.waitstart)::float8 * 1000 as "waitedMs", waiting.query as waiting, holding.query as holding
       from   pg_locks l
       join   pg_stat_activity waiting on waiting.pid = l.pid
       join   lateral unnest(pg_blocking_pids(l.pid)) as blocker (pid) on blocker.pid = any ($1)
       join   pg_stat_activity holding on holding.pid = blocker.pid
       where  not l.granted
       and    l.pid <> all ($1)
       order  by l.waitstart
       limit  1`,
      [frozen],
    );
    if (wait && wait.waitedMs > MOST_WAIT_MS) {
      throw new Error(
        `A session has waited for a frozen process for ${Math.round(wait.waitedMs)} ms: ${brief(wait.waiting)}\nWhat the frozen one did last: ${brief(wait.holding)}`,
      );
    }
  }

  private async behind(since: Date, decided: string | undefined): Promise<string[]> {
    const rows = await this.cluster.database.query<{ job: string }>(
      `select job
       from   unnest($1::text[]) as job
       where  (select count(*) from job_runs where job_name = job and fire_time > $2 and status = 'done') < $3
       union  all
       select $4::text
       where  $4::text is not null
       and    (select count(*) from job_runs where job_name = $4::text and fire_time > $2) < $3`,
      [this.jobs, since.toISOString(), OCCURRENCES, decided ?? null],
    );
    return rows.map(({ job }) => job);
  }

  /** A replica that ends leaves its share of the jobs at once; one that is killed does so later. */
  private async leave(newcomer: Replica): Promise<void> {
    if (newcomer.heard('scheduler.started').length > 0) await Promise.race([newcomer.stop(), pause(LEAVE_WITHIN_MS)]);
    await newcomer.kill();
  }
}

function brief(statement: string): string {
  return statement.replace(/\s+/g, ' ').slice(0, 160);
}
