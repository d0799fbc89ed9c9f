import { Test } from '@nestjs/testing';
import { type CronRun } from 'nestjs-distributed-cron';
import { Greetings } from './greetings';

describe('Greetings', () => {
  it('says what time it is', async () => {
    const module = await Test.createTestingModule({ providers: [Greetings] }).compile();
    const greetings = module.get(Greetings);
    greetings.hello({ fireTime: new Date(0), attempt: 1 } as CronRun);
    expect(greetings.said).toEqual(['It is 1970-01-01T00:00:00.000Z, attempt 1.']);
  });
});
