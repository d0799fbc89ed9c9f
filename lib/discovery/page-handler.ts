import type { PagePolicies } from '../options/page-options.js';
import type { Handler } from './handler.factory.js';

/** The handler of a job's pages, on this instance. */
export interface PageHandler {
  readonly handler: Handler;
  readonly policies: PagePolicies;
  /** Where it is declared, for people. */
  readonly declaredBy: string;
}
