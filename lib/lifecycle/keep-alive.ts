import { Injectable } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import { LONGEST_TIMER_MS } from '../domain/duration.js';
import { inCleanContext } from '../runtime/clean-context.js';

/**
 * The scheduler's timers keep no process alive. An application without a server (`createApplicationContext`) has nothing
 * else that would, and would end at once with all its jobs: it is kept until it closes. Tests are not.
 */
@Injectable()
export class KeepAlive {
  private timer: NodeJS.Timeout | null = null;

  constructor(private readonly http: HttpAdapterHost) {}

  hold(): void {
    const needed = !this.http.httpAdapter && process.env['NODE_ENV'] !== 'test';
    if (needed) this.timer = inCleanContext(() => setInterval(() => {}, LONGEST_TIMER_MS));
  }

  release(): void {
    if (this.timer) clearInterval(this.timer);
  }
}
