import type { PagePolicies } from './page.js';
import type { Handler } from '../jobs/handler.factory.js';

/** The handler of a job's pages, on this instance. */
export interface PageHandler {
  readonly handler: Handler;
  readonly policies: PagePolicies;
  /** Where it is declared, for people. */
  readonly declaredBy: string;
}
