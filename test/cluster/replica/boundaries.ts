import { Inject, Injectable, type INestApplicationContext } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import type { Attempt } from './messages.js';
import { Parent } from './parent.js';
import { SETTINGS } from './settings.token.js';
import type { Boundary, ReplicaSettings } from './settings.js';

/** The true one, whatever the replica is made to believe. */
const pid = process.pid;

type At = NonNullable<ReplicaSettings['strike']>['at'][string];

/**
 * Stops or ends the process at the moment at which a run of each job stands at the boundary that its test has named.
 * One signal so cuts many runs, each of them exactly there.
 */
@Injectable()
export class Boundaries {
  private readonly awaited: Map<string, At>;
  private readonly claims: ReadonlySet<string>;
  private readonly standing: (() => void)[] = [];
  /** Only the claim is missing. */
  private readonly all = new Signal();

  constructor(
    @Inject(SETTINGS) private readonly settings: ReplicaSettings,
    private readonly parent: Parent,
  ) {
    const jobs = Object.entries(settings.strike?.at ?? {});
    this.claims = new Set(jobs.filter(([, { boundary }]) => boundary.endsWith('the claim')).map(([job]) => job));
    this.awaited = new Map(jobs.filter(([job]) => !this.claims.has(job)));
  }

  get isWatched(): boolean {
    return this.settings.strike !== undefined;
  }

  /** Goes on at once, unless this is where the job’s first run is to be cut. */
  async reach(boundary: Boundary, { jobName }: { readonly jobName: string }, entity?: string): Promise<void> {
    if (!this.isNext(jobName, boundary, entity)) return;
    this.awaited.delete(jobName);
    const thawed = new Promise<void>((resolve) => this.standing.push(resolve));
    await this.look();
    await thawed;
  }

  /** The same, once all is written that commits with what the manager has written, and right before the commit. */
  atCommit(boundary: Boundary, manager: EntityManager, run: { readonly jobName: string }, entity?: string): void {
    const queryRunner = manager.queryRunner!;
    const commit = queryRunner.commitTransaction.bind(queryRunner);
    queryRunner.commitTransaction = async () => {
      await this.reach(boundary, run, entity);
      await commit();
    };
  }

  /** A claim goes last: its runs have nobody yet who would renew their leases. */
  async reachClaim(boundary: Boundary, due: readonly { readonly jobName: string }[]): Promise<void> {
    const cut = due.find(({ jobName }) => this.claims.has(jobName));
    if (!cut) return;
    await this.look();
    await this.all.given;
    if (this.settings.strike!.at[cut.jobName]!.boundary === boundary) await this.strike();
  }

  private isNext(jobName: string, boundary: Boundary, entity: string | undefined): boolean {
    const at = this.awaited.get(jobName);
    return at?.boundary === boundary && at.entity === entity;
  }

  private async look(): Promise<void> {
    if (this.awaited.size > 0) return;
    this.all.give();
    if (this.claims.size === 0) await this.strike();
  }

  private async strike(): Promise<void> {
    await this.parent.tell({ kind: 'freezing' });
    process.kill(pid, this.settings.strike!.signal);
    // Thawed: they all go on in the same turn of the event loop, before any timer can tell them that their leases are
    // over.
    this.standing.splice(0).forEach((goOn) => goOn());
  }
}

/** Puts the boundaries of claims and completions around the scheduler’s own classes, as they are injected. */
export async function watchBoundaries(app: INestApplicationContext): Promise<void> {
  const boundaries = app.get(Boundaries);
  if (!boundaries.isWatched) return;
  const claims = await ownClass('runs/job-run.repository', 'JobRunRepository');
  const ends = await ownClass('runs/end-writer', 'EndWriter');

  around(app.get(claims), 'claimDue', {
    before: (due) => boundaries.reachClaim('before the claim', due),
    after: (_answers, due) => boundaries.reachClaim('after the claim', due),
  });
  around(app.get(ends), 'write', {
    before: (run, end) => (end.status === 'done' ? boundaries.reach('before the completion', run) : undefined),
    after: (_written, run, end) => (end.status === 'done' ? boundaries.reach('after the completion', run) : undefined),
  });
}

class Signal {
  give: () => void = () => {};
  readonly given = new Promise<void>((resolve) => (this.give = resolve));
}

interface Around {
  readonly before?: (...given: any[]) => Promise<void> | undefined;
  readonly after?: (result: any, ...given: any[]) => Promise<void> | undefined;
}

function around(
  target: Record<string, (...given: any[]) => Promise<any>>,
  method: string,
  { before, after }: Around,
): void {
  const own = target[method]!.bind(target);
  target[method] = async (...given) => {
    await before?.(...given);
    const result = await own(...given);
    await after?.(result, ...given);
    return result;
  };
}

/** Puts gates around the ends of pages, as they are written. */
export async function watchPageEnds(app: INestApplicationContext): Promise<void> {
  const ends: Readonly<Record<string, 'before' | 'after'>> = Object.assign(
    {},
    ...app.get<ReplicaSettings>(SETTINGS).jobs.map(({ pageEnds }) => pageEnds),
  );
  if (Object.keys(ends).length === 0) return;
  const parent = app.get(Parent);
  const gate = async (when: 'before' | 'after', page: Attempt & { readonly page: string }) => {
    if (ends[page.page] === when) await parent.passGate(page.page, page);
  };
  around(app.get(await ownClass('fan-out/page.repository', 'PageAttemptStore')), 'end', {
    before: (page) => gate('before', page),
    after: (_written, page) => gate('after', page),
  });
}

/** A class that the package does not export, as the package itself has it. */
async function ownClass(file: string, name: string) {
  const library = import.meta.resolve('nestjs-distributed-cron');
  return ((await import(new URL(`./lib/${file}.js`, library).href)) as Record<string, any>)[name];
}
