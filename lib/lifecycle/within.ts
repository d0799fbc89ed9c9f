/**
 * Waits for the work, at most so many milliseconds; a failure in time is thrown.
 * @returns false when it goes on, and whether it fails later interests nobody
 */
export async function within(millis: number, work: Promise<unknown>): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const impatience = new Promise<boolean>((resolve) => (timer = setTimeout(() => resolve(false), millis)));
  try {
    return await Promise.race([work.then(() => true), impatience]);
  } finally {
    clearTimeout(timer);
  }
}
