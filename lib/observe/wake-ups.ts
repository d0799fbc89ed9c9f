import { Injectable } from '@nestjs/common';
import { Subject, type Subscription } from 'rxjs';
import type { WakeUp } from '../database/tables.js';

/** What the heartbeat's thread hears from other instances, on its way to the loops of this one. */
@Injectable()
export class WakeUps {
  private readonly heard = new Subject<readonly WakeUp[]>();
  private readonly silence = new Subject<void>();
  private isHeard = false;

  /** True while the connection stands on which they are heard, and it is no pooler's. */
  get areHeard(): boolean {
    return this.isHeard;
  }

  set areHeard(isHeard: boolean) {
    const begins = this.isHeard && !isHeard;
    this.isHeard = isHeard;
    if (begins) this.silence.next();
  }

  /**
   * @param listen told from now on; as the other it may not throw
   * @param beginsToMiss told when they are not heard any more
   */
  subscribe(listen: (wakeUps: readonly WakeUp[]) => void, beginsToMiss: () => void = () => {}): Subscription {
    const subscription = this.heard.subscribe(listen);
    subscription.add(this.silence.subscribe(beginsToMiss));
    return subscription;
  }

  tell(wakeUps: readonly WakeUp[]): void {
    this.heard.next(wakeUps);
  }
}
