import { LEASE_MS } from '../../src/schedules.js';
import type { Fleet } from '../fleet.js';
import type { MailServer } from '../mail-server.js';
import type { Lease } from '../leases.js';
import type { ReplicaState } from '../replica.js';
import { CUSTOMERS } from '../seed.js';
import type { Narrator } from './narrator.js';
import { bar, clock, replicaColor, type Colors } from './style.js';

const SIGNS: Record<ReplicaState, string> = {
  starting: '○',
  running: '●',
  frozen: '❄',
  killed: '✖',
  stopping: '○',
  ended: '✖',
};

/** What is shown below the lines, and changes. */
export interface PanelFacts {
  readonly fleet: Fleet;
  readonly leases: readonly Lease[];
  readonly mailServer: MailServer;
  readonly narrator: Narrator;
  readonly nameOf: (instanceId: string) => string;
  readonly seconds: number;
}

export function drawPanel(
  { fleet, leases, mailServer, narrator, nameOf, seconds }: PanelFacts,
  colors: Colors,
): string[] {
  const replicas = fleet.list().flatMap(({ name, state, pid }) => {
    const head = `  ${replicaColor(colors, name)} ${paintState(colors, state)(`${SIGNS[state]} ${state.padEnd(9)}`)} ${colors.dim(String(pid).padEnd(8))}`;
    const held = leases.filter(({ claimedBy }) => nameOf(claimedBy) === name);
    return [head + held.map((lease) => drawLease(lease, colors)).join('  ')];
  });
  const mailing = narrator.newestMailing;
  const progress = mailing
    ? `  statements of ${clock(mailing.fireTime)} ${colors.cyan(bar(mailing.count / CUSTOMERS, 24))} ${mailing.count}/${CUSTOMERS}`
    : '  no statements yet';
  const counts = [
    `mails ${mailServer.kept.length}`,
    `in doubt ${narrator.doubts}`,
    `statements not repeated ${narrator.prevented}`,
    `take-overs ${narrator.takeOvers}`,
    `${Math.max(0, Math.floor(seconds))} s`,
  ];
  return [colors.dim('─'.repeat(76)), ...replicas, progress, `  ${counts.join(colors.dim(' · '))}`];
}

function drawLease({ job, fireTime, attempt, remainingMs }: Lease, colors: Colors): string {
  const paint = remainingMs > LEASE_MS / 2 ? colors.green : remainingMs > 0 ? colors.yellow : colors.red;
  const left = remainingMs > 0 ? `${(remainingMs / 1_000).toFixed(1)} s` : 'ran out';
  return `${job} ${clock(fireTime)} #${attempt} ${paint(bar(remainingMs / LEASE_MS, 8))} ${left}`;
}

function paintState(colors: Colors, state: ReplicaState): (text: string) => string {
  if (state === 'running') return colors.green;
  if (state === 'frozen') return colors.blue;
  return state === 'killed' || state === 'ended' ? colors.red : colors.dim;
}
