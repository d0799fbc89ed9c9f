import { setTimeout as sleep } from 'node:timers/promises';
import type { Database } from './database.js';
import type { Fleet } from './fleet.js';
import { MAILING } from './jobs.js';
import type { MailServer } from './mail-server.js';
import type { Window } from './verdict/window.js';

const LOOK_EVERY_MS = 100;
const PATIENCE_MS = 10_000;

/** A mail that was cut off between the sending and the answer, as its receipt tells it. */
export interface Doubt {
  readonly customer: number;
  readonly fireTime: Date;
  readonly attempt: number;
  readonly instanceId: string;
  readonly idempotencyKey: string;
  /** The mail server had it. */
  readonly taken: boolean;
  /** What the receipt says once a person has decided. */
  readonly decided: string | null;
  readonly reason: string | null;
}

interface DoubtRow {
  readonly customer: number;
  readonly fireTime: Date;
  readonly attempt: number;
  readonly instanceId: string;
  readonly idempotencyKey: string;
  readonly state: string;
  readonly reason: string | null;
}

/**
 * Does what a person does in the morning: looks at the mails in doubt, asks the mail server for each, and says what
 * came of it.
 */
export async function decideDoubts(
  database: Database,
  mailServer: MailServer,
  fleet: Fleet,
  window: Window,
  tell: (text: string) => void,
  signal: AbortSignal,
): Promise<Doubt[]> {
  const found = (await readReceipts(database, window)).filter(({ state }) => state === 'in_doubt');
  const doubts = found.map((row) => ({
    ...row,
    taken: mailServer.kept.some(({ messageId }) => messageId.startsWith(`<${row.idempotencyKey}@`)),
  }));
  for (const { idempotencyKey, customer, taken } of doubts) {
    tell(
      `a person looks: the mail for customer ${customer} is in doubt, and the mail server ${taken ? 'has it: done' : 'has never seen it: undone'}`,
    );
    fleet
      .list()
      .find(({ state }) => state === 'running')
      ?.tell({ idempotencyKey, taken });
  }
  const keys = new Set(doubts.map(({ idempotencyKey }) => idempotencyKey));
  const end = performance.now() + PATIENCE_MS;
  for (;;) {
    const rows = (await readReceipts(database, window)).filter(({ idempotencyKey }) => keys.has(idempotencyKey));
    if (performance.now() > end || rows.every(({ state }) => state !== 'in_doubt' && state !== 'open')) {
      return doubts.map(({ state: _, reason: __, ...doubt }) => {
        const row = rows.find(({ idempotencyKey }) => idempotencyKey === doubt.idempotencyKey);
        return { ...doubt, decided: row?.reason ? row.state : null, reason: row?.reason ?? null };
      });
    }
    await sleep(LOOK_EVERY_MS, undefined, { signal });
  }
}

function readReceipts({ dataSource, schema }: Database, { from, to }: Window): Promise<DoubtRow[]> {
  return dataSource.query(
    `select entity::integer as customer, fire_time as "fireTime", attempt, claimed_by as "instanceId", idempotency_key as "idempotencyKey",
            state, resolved_reason as reason
     from   ${schema}.receipts
     where  job_name = $3 and effect = 'mail' and fire_time > $1 and fire_time <= $2
     order  by fire_time, entity`,
    [from, to, MAILING],
  );
}
