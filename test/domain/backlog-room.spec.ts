import { expect, it } from '@jest/globals';
import { backlogRoom } from '../../lib/runs/waiting-runs.service.js';

it.each<[string, Parameters<typeof backlogRoom>, number]>([
  ['of twenty slots a quarter is kept for what comes due', [20, 0, 60_000], 15],
  ['what is in hand counts', [20, 14, 60_000], 1],
  ['however little is left', [20, 17, 60_000], 0],
  ['of two or three slots one is kept', [3, 0, 60_000], 2],
  ['the only slot is given when nothing is due soon', [1, 0, 501], 1],
  ['the only slot is kept for what is due soon', [1, 0, 500], 0],
  ['the only slot is kept for what is late', [1, 0, -1_000], 0],
  ['the only slot is given once', [1, 1, 60_000], 0],
])('a backlog has room: %s', (_, [slots, taken, untilLiveMs], room) => {
  expect(backlogRoom(slots, taken, untilLiveMs)).toBe(room);
});
