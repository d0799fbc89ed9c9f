import type { RulesOfZones } from '../../domain/schedule/zone-rules.js';
import { queryOn, type Query } from '../connection/query.js';
import type { SchedulerDatabase } from '../scheduler-database.js';

/** What an instance says of itself beside its jobs; null: it does not know, or is of a release that does not say. */
export interface InstanceFacts {
  readonly application: string | null;
  readonly tz: string | null;
  readonly icu: string | null;
  readonly zones: RulesOfZones | null;
}

/** Another live instance. */
export interface OtherInstance extends Omit<InstanceFacts, 'icu'> {
  readonly id: string;
  /** Of those that were asked for, the jobs and handlers that it declares; none where it is of the same application, or of an unknown one. */
  readonly jobs: readonly string[];
  readonly handlers: readonly string[];
}

/** What live instances say of themselves beside their jobs. */
export class InstanceFactsStore {
  private readonly query: Query;

  constructor(private readonly database: SchedulerDatabase) {
    this.query = queryOn(database.coordination);
  }

  /**
   * Says of this instance what is true of it, and asks for all other live ones.
   * @param jobs names that must not be another application's, as those of `handlers`
   */
  async exchange(instanceId: string, facts: InstanceFacts, { jobs, handlers }: Pick<OtherInstance, 'jobs' | 'handlers'>): Promise<OtherInstance[]> {
    const { jobInstances } = this.database.tables;
    return this.query(
      `with me as (
         update ${jobInstances}
         set    application = $2,
                tz = $3,
                icu = $4,
                zones = $5
         where  id = $1
       )
       select other.id,
              other.application,
              other.tz,
              other.zones,
              array(select name from unnest($6::text[]) as name where other.application <> $2 and other.jobs ? name order by name) as jobs,
              array(select name from unnest($7::text[]) as name where other.application <> $2 and other.handlers ? name order by name) as handlers
       from   ${jobInstances} other
       where  other.id <> $1
       and    other.alive_until > clock_timestamp()
       order  by other.id`,
      [instanceId, facts.application, facts.tz, facts.icu, facts.zones && JSON.stringify(facts.zones), jobs, handlers],
    );
  }
}
