import { describe, expect, it } from '@jest/globals';
import { Failures } from '../../lib/runs/heartbeat/heartbeat.messages.js';
import type { FromThread } from '../../lib/runs/heartbeat/heartbeat.messages.js';

const refused = () => Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' });
const password = () => Object.assign(new Error('password authentication failed'), { code: '28P01' });

function listened() {
  const told: FromThread['type'][] = [];
  return { told, failures: new Failures(({ type }) => told.push(type)) };
}

describe('the connections of the heartbeat’s thread', () => {
  it('that fail together are told of once, and have recovered when both have', () => {
    const { told, failures } = listened();
    for (let time = 0; time < 3; time++) {
      failures.failed('leases', refused());
      failures.failed('lifeline', refused());
    }
    expect(told).toEqual(['failed']);
    failures.recovered('leases');
    expect(told).toEqual(['failed']);
    failures.recovered('lifeline');
    expect(told).toEqual(['failed', 'recovered']);
  });

  it('are told of again when one fails with something else', () => {
    const { told, failures } = listened();
    failures.failed('leases', refused());
    failures.failed('lifeline', password());
    failures.failed('leases', password());
    expect(told).toEqual(['failed', 'failed']);
  });

  it('have not recovered when nothing had failed', () => {
    const { told, failures } = listened();
    failures.recovered('leases');
    expect(told).toEqual([]);
  });
});
