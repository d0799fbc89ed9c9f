import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * Writes docs/guarantees.md from this table and from the titles of the tests that name a guarantee: `npm run guarantees`.
 * With --check it writes nothing, and fails where the page is not what it would write.
 */
const GUARANTEES = {
  G1: [
    'One row per occurrence',
    '`(job_name, fire_time)` exists once. A replica that loses a claim gets no row and says nothing.',
  ],
  G2: ['Never early', "No handler starts before its fire time by the database's clock."],
  G3: [
    'One owner',
    'Heartbeat, end, reaping and receipts name the attempt that they belong to. A process that was frozen past its lease changes nothing when it wakes up.',
  ],
  G4: [
    'Effects once',
    'An effect written through a receipt in the same database happens once for each entity, effect, job and fire time. A call outside the database that was cut off is in doubt: the job says whether it is sent again or parked.',
  ],
  G5: ['Every due occurrence has a decision', 'It ran, or a row says why not.'],
  G6: ['Dead workers are replaced', 'Within one lease and one pass of the reaper, whatever killed them.'],
  G7: [
    'Retries end',
    'Backoff, a bound on attempts, then a dead letter with its error and an alert. A replay has the same key, so that receipts still hold.',
  ],
  G8: [
    'Overlap is enforced by the database',
    'Also where two replicas claim two occurrences of one job at the same moment.',
  ],
  G9: [
    'Catch-up is bounded',
    'By count and by age. A first deployment has no past, paused time is not missed time, and an edit never acts on the past.',
  ],
  G10: ['Clocks may lie', 'A replica whose clock is five minutes off runs nothing early, late or twice.'],
  G11: [
    'Forgetting is safe',
    'History is dropped by partition; a retention that is too short for catch-up is refused at start-up.',
  ],
  G12: [
    'Outages pass',
    'With the database gone no process dies and no loop stops; afterwards the missed policy decides.',
  ],
  G13: ['Shutdown is clean', 'Claims stop at once, handlers end within a bound, the heartbeat stops last.'],
  G14: ['Faults stay local', 'One bad expression, zone, row or handler delays no other job.'],
  G15: ['Idle is free', 'Database traffic does not grow with the number of schedules that are not due.'],
};

const page = pageOf(titlesOf('test'));
const FILE = 'docs/guarantees.md';
if (!process.argv.includes('--check')) writeFileSync(FILE, page);
else if (readFileSync(FILE, 'utf8') !== page) {
  console.error(`${FILE} is not what the tests say: run npm run guarantees.`);
  process.exit(1);
}

/** @returns what describes and tests are called, by file */
function titlesOf(folder) {
  return readdirSync(folder, { recursive: true })
    .filter((file) => file.endsWith('.spec.ts'))
    .sort()
    .flatMap((file) => {
      const text = readFileSync(join(folder, file), 'utf8');
      const titles = text.matchAll(/^\s*(?:describe|it|maybe)(?:\.\w+)?\(\s*(['"`])(.*?)\1,/gm);
      const tables = text.matchAll(/^\s*\]\)\(\s*(['"`])(.*?)\1,/gm);
      return [...titles, ...tables].map(([, , title]) => ({ file: `${folder}/${file.replaceAll('\\', '/')}`, title }));
    });
}

function pageOf(titles) {
  const sections = Object.entries(GUARANTEES).map(([code, [name, promise]]) => {
    const naming = titles.filter(({ title }) => new RegExp(`\\b${code}\\b`).test(title));
    if (naming.length === 0) {
      console.error(`No test names ${code}.`);
      process.exitCode = 1;
    }
    const lines = naming.map(({ file, title }) => `- \`${file}\`: ${title.replaceAll(/\b[GB]\d+\b /g, '')}`);
    return `## ${code} ${name}\n\n${promise}\n\n${lines.join('\n')}\n`;
  });
  return `# Guarantees

What is promised, and the tests that fail when it does not hold. Written by \`npm run guarantees\` from the titles of the
tests; \`npm test\` refuses a page that is out of date. A title with a code such as B41 repeats a public bug report of
another scheduler or library as a trial.

${sections.join('\n')}`;
}
