import pc from 'picocolors';

export type Colors = ReturnType<typeof pc.createColors>;

/** No colours where they were not asked for: NO_COLOR, a pipe, a terminal without them. */
export function colorsFor(stream: NodeJS.WriteStream, env: NodeJS.ProcessEnv): Colors {
  return pc.createColors(Boolean(stream.isTTY) && !env.NO_COLOR && env.TERM !== 'dumb');
}

export function replicaColor(colors: Colors, name: string): string {
  const paint = { A: colors.cyan, B: colors.magenta, C: colors.yellow }[name] ?? colors.white;
  return paint(name);
}

/** The time of day, as the clock on this machine's wall shows it. */
export function clock(at: Date, withTenths = false): string {
  const time = [at.getHours(), at.getMinutes(), at.getSeconds()].map((part) => String(part).padStart(2, '0')).join(':');
  return withTenths ? `${time}.${Math.floor(at.getMilliseconds() / 100)}` : time;
}

export function bar(share: number, width: number): string {
  const full = Math.round(Math.min(1, Math.max(0, share)) * width);
  return '█'.repeat(full) + '░'.repeat(width - full);
}
