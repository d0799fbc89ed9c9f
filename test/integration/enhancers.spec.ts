import {
  Catch,
  createParamDecorator,
  Injectable,
  Inject,
  Scope,
  UseFilters,
  UseGuards,
  UseInterceptors,
  UsePipes,
  type CallHandler,
  type CanActivate,
  type ExceptionFilter,
  type ExecutionContext,
  type NestInterceptor,
  type PipeTransform,
} from '@nestjs/common';
import { REQUEST } from '@nestjs/core';
import { type TestingModule } from '@nestjs/testing';
import { firstValueFrom, map, scan, filter as only, timeout } from 'rxjs';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { CronRun, DistributedCron, SchedulerEvents, type EventOf } from '../../lib/index.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { closeApps, startApp } from './support/apps.js';

const EACH_SECOND = '* * * * * *';

/** What happened in the runs of a job, in order. */
const told = new Map<string, unknown[]>();
function tell(job: string, what: unknown): void {
  told.set(job, [...(told.get(job) ?? []), what]);
}

const guard = (name: string, answer = true): CanActivate => ({
  canActivate: (context) => {
    tell(jobOf(context), `${name} ${context.getType()} ${context.getClass().name}.${context.getHandler().name}`);
    return answer;
  },
});
const around = (name: string): NestInterceptor => ({
  intercept: (context: ExecutionContext, next: CallHandler) => {
    tell(jobOf(context), `${name} before`);
    return next.handle().pipe(
      map((result: unknown) => {
        tell(jobOf(context), `${name} after ${String(result)}`);
        return `${name}(${String(result)})`;
      }),
    );
  },
});
const wrapping = (name: string): PipeTransform => ({
  transform: (value: unknown, { type }) => {
    const run = value as { jobName: string; note?: string };
    return Object.assign(Object.create(run) as object, { note: `${run.note ?? ''}${name}:${type} ` });
  },
});
function jobOf(context: ExecutionContext): string {
  return context.getArgByIndex<CronRun>(0).jobName;
}

const JobName = createParamDecorator((suffix: string, context: ExecutionContext) => `${jobOf(context)}${suffix}`);

class Unready extends Error {}
@Catch(Unready)
class UnreadyFilter implements ExceptionFilter {
  catch(error: Unready) {
    return `handled ${error.message}`;
  }
}
@Injectable({ scope: Scope.REQUEST })
class ScopedGuard implements CanActivate {
  constructor(@Inject(REQUEST) private readonly run: CronRun) {}

  canActivate(context: ExecutionContext) {
    tell(jobOf(context), this.run === context.getArgByIndex(0));
    return true;
  }
}

@UseGuards(guard('class guard'))
@UseInterceptors(around('class'))
@UsePipes(wrapping('class pipe'))
@Injectable()
class Enhanced {
  @UseGuards(guard('method guard'))
  @UseInterceptors(around('method'))
  @UsePipes(wrapping('method pipe'))
  @DistributedCron(EACH_SECOND, { name: 'order' })
  order(run: CronRun & { note: string }) {
    tell('order', run.note);
    return 'result';
  }
}

@Injectable()
class Plain {
  @DistributedCron(EACH_SECOND, { name: 'parameters' })
  parameters(
    @JobName('!') name: string,
    @JobName('?', { transform: (value: string) => value.toUpperCase() }) other: string,
  ) {
    tell('parameters', [name, other]);
  }

  @UseGuards(guard('no', false))
  @DistributedCron(EACH_SECOND, { name: 'refused', maxAttempts: 1 })
  refused() {
    tell('refused', 'ran');
  }

  @UseFilters(UnreadyFilter)
  @DistributedCron(EACH_SECOND, { name: 'handled' })
  handled() {
    throw new Unready('yet');
  }

  @UseFilters(UnreadyFilter)
  @DistributedCron(EACH_SECOND, { name: 'unhandled', maxAttempts: 1 })
  unhandled() {
    throw new TypeError('no filter for this');
  }

  @UseGuards(ScopedGuard)
  @DistributedCron(EACH_SECOND, { name: 'scoped' })
  scoped() {}
}

/** Named as one more: each has parameters of its own. */
@Injectable()
class Importer {
  @DistributedCron(EACH_SECOND, { name: 'customers' })
  handle(@JobName('!') name: string) {
    tell('customers', name);
  }
}
const Namesake = (() => {
  @Injectable()
  class Importer {
    @DistributedCron(EACH_SECOND, { name: 'suppliers' })
    handle(run: CronRun) {
      tell('suppliers', run.jobName);
    }
  }
  return Importer;
})();

let database: TestDatabase;
const ends = new Map<string, EventOf<'run.completed' | 'run.dead'>>();

beforeAll(async () => {
  database = await createTestDatabase();
  const app: TestingModule = await startApp(database, { providers: [Enhanced, Plain, Importer, Namesake] });
  await firstValueFrom(
    app
      .get(SchedulerEvents)
      .of('run.completed', 'run.dead')
      .pipe(
        scan((all, event) => all.set(event.jobName, all.get(event.jobName) ?? event), ends),
        only(({ size }) => size === 8),
        timeout(50_000),
      ),
  );
});
afterAll(async () => {
  await closeApps();
  await database.drop();
});

describe('what is bound on a handler', () => {
  it('applies from the class to the method and back', () => {
    expect(told.get('order')!.slice(0, 7)).toEqual([
      'class guard cron Enhanced.order',
      'method guard cron Enhanced.order',
      'class before',
      'method before',
      'class pipe:custom method pipe:custom ',
      'method after result',
      'class after method(result)',
    ]);
    expect(ends.get('order')!.type).toBe('run.completed');
  });

  it('gives custom decorators of parameters their values, through their pipes', () => {
    expect(told.get('parameters')).toContainEqual(['parameters!', 'PARAMETERS?']);
  });

  it('gives two methods of one class name and one method name their own parameters', () => {
    expect(told.get('customers')![0]).toBe('customers!');
    expect(told.get('suppliers')![0]).toBe('suppliers');
  });

  it('refuses the run by a guard, which is stored as its error', async () => {
    expect(told.get('refused')!.every((what) => what !== 'ran')).toBe(true);
    const { fireTime } = ends.get('refused')!;
    const [row] = await database.query(
      `select status, error ->> 'name' as name, error ->> 'message' as message from job_runs where job_name = 'refused' and fire_time = $1`,
      [fireTime],
    );
    expect(row).toEqual({ status: 'dead', name: 'ForbiddenException', message: 'Forbidden resource' });
  });

  it('handles an error by a filter that answers it: the run is done', () => {
    expect(ends.get('handled')!.type).toBe('run.completed');
  });

  it('leaves an error no filter takes to the run', () => {
    expect(ends.get('unhandled')).toMatchObject({
      type: 'run.dead',
      error: { name: 'TypeError', message: 'no filter for this' },
    });
  });

  it('is resolved for each run when it is request-scoped', () => {
    expect(ends.get('scoped')!.type).toBe('run.completed');
    expect(new Set(told.get('scoped'))).toEqual(new Set([true]));
  });
});
