/**
 * `timeOrigin` is read once, and some milliseconds off; the smallest difference seen is the one with nothing in
 * between.
 */
function calibration(): number {
  let least = Infinity;
  for (let look = 0; look < 20_000; look++)
    least = Math.min(least, performance.timeOrigin + performance.now() - Date.now());
  return -least;
}

const drift = calibration();

/**
 * The machine's clock in milliseconds, finer than `Date.now()`: the same for all processes, the database's included.
 */
export function machineNow(): number {
  return performance.timeOrigin + performance.now() + drift;
}
