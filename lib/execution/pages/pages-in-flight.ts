import { Injectable } from '@nestjs/common';
import { InFlightRuns } from '../in-flight-runs.js';

/** The pages whose handlers are under way in this process. They have no leases, and take no place of the runs'. */
@Injectable()
export class PagesInFlight extends InFlightRuns {}
