import { Injectable } from '@nestjs/common';
import { Subject, type Subscription } from 'rxjs';
import type { WakeUp } from '../../domain/wake-up.js';

/** What the heartbeat's thread hears from other instances, on its way to the loops of this one. */
@Injectable()
export class WakeUps {
  private readonly heard = new Subject<readonly WakeUp[]>();
  /** True while the connection stands on which they are heard, and it is no pooler's. */
  areHeard = false;

  /** @param listen told from now on; it may not throw */
  subscribe(listen: (wakeUps: readonly WakeUp[]) => void): Subscription {
    return this.heard.subscribe(listen);
  }

  tell(wakeUps: readonly WakeUp[]): void {
    this.heard.next(wakeUps);
  }
}
