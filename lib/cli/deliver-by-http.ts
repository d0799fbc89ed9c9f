import type { Delivered } from '../operations/delivery-rules.js';
import type { TriggerCommand } from './trigger-arguments.js';

/** Beyond what it was told to wait. */
const ANSWER_WITHIN_MS = 30_000;

/** The endpoint refused a delivery, or could not take it in. */
export class EndpointError extends Error {
  /** @param isRefusal whether it would refuse it again */
  constructor(
    message: string,
    readonly isRefusal: boolean,
  ) {
    super(message);
  }
}

/** @throws EndpointError */
export async function deliverByHttp(command: TriggerCommand, endpoint: URL): Promise<Delivered> {
  const { jobName, time, by, data, waitMs, token } = command;
  const url = new URL(`${endpoint.pathname.replace(/\/+$/, '')}/${encodeURIComponent(jobName)}`, endpoint);
  if (waitMs > 0) url.searchParams.set('wait', `${waitMs}ms`);
  const fireTime = time.kind === 'now' ? undefined : new Date(time.at).toISOString();
  const answer = await fetch(url, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ fireTime, by, data }),
    // It would take the token along to another place.
    redirect: 'error',
    signal: AbortSignal.timeout(waitMs + ANSWER_WITHIN_MS),
  }).catch((error: Error) => {
    throw new EndpointError(
      `${url.origin} did not answer: ${error.cause instanceof Error ? error.cause.message : error.message}`,
      false,
    );
  });
  const said = (await answer.json().catch(() => ({}))) as Partial<Delivered> & { message?: string | string[] };
  // What is dead or cancelled is an answer, too.
  if (said.jobName !== undefined && said.fireTime !== undefined)
    return { ...(said as Delivered), fireTime: new Date(said.fireTime) };
  const why = [said.message ?? answer.statusText].flat().join('\n');
  throw new EndpointError(
    `${url.origin} answered ${answer.status}: ${why}`,
    answer.status >= 400 && answer.status < 500 && answer.status !== 429,
  );
}
