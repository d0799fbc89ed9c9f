import type { SchedulerEvent } from 'nestjs-distributed-cron';

/** Which jobs each replica has in hand, and which of the scheduler's instances it is, as far as events have told. */
export class WorkInHand {
  private readonly jobs = new Map<string, Set<string>>();
  private readonly replicas = new Map<string, string>();

  hear(replica: string, event: SchedulerEvent): void {
    switch (event.type) {
      case 'scheduler.started':
        this.replicas.set(event.instanceId, replica);
        break;
      case 'run.claimed':
        this.replicas.set(event.instanceId, replica);
        this.of(replica).add(event.jobName);
        break;
      case 'run.completed':
      case 'run.failed':
      case 'run.dead':
      case 'run.released':
      case 'run.refused':
        this.of(replica).delete(event.jobName);
    }
  }

  has(replica: string, jobName: string): boolean {
    return this.of(replica).has(jobName);
  }

  anyoneHas(jobName: string): boolean {
    return [...this.jobs.values()].some((jobs) => jobs.has(jobName));
  }

  /** The process is gone, and what it had with it. */
  forget(replica: string): void {
    this.jobs.delete(replica);
  }

  /** What people call the instance; killed ones are remembered. */
  nameOf(instanceId: string): string {
    return this.replicas.get(instanceId) ?? instanceId;
  }

  private of(replica: string): Set<string> {
    const jobs = this.jobs.get(replica) ?? new Set<string>();
    this.jobs.set(replica, jobs);
    return jobs;
  }
}
