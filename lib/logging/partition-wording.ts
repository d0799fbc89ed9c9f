import type { EventOf } from '../events/scheduler-event.js';
import type { LogLine } from './log-line.js';
import { count, listed } from './phrases.js';

/** What is forgotten, and what is not yet. */
export function partitionLine(event: EventOf<'partition.dropped' | 'partition.kept'>): LogLine {
  if (event.type === 'partition.dropped') {
    const text = `Dropped partitions ${event.names.join(', ')}, older than the retention`;
    if (event.dead === 0) return { level: 'log', text };
    return { level: 'warn', text: `${text}, and with them ${count(event.dead, 'dead run')} that nobody had replayed or discarded` };
  }
  return { level: 'warn', text: `${event.name} is older than the retention and is kept: ${why(event)}` };
}

function why({ open }: EventOf<'partition.kept'>): string {
  if (!open) return 'a transaction that began before has not ended';
  const { runs, pages, inDoubt, backfills } = open;
  const all = [count(runs, 'run'), count(pages, 'page'), count(inDoubt, 'call') + ' in doubt', count(backfills, 'backfill')];
  const left = all.filter((text) => !text.startsWith('0 '));
  return `open in it: ${listed(left, left.length)}`;
}
