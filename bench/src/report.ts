import { cpus, loadavg, totalmem } from 'node:os';
import type { Figure } from './benchmark.js';

/** A figure as `--json` prints it. */
export interface FigureLine extends Figure {
  readonly ok: boolean;
}

/** Where the figures come from, and what else went on there. */
export function machine(): string {
  const cores = cpus();
  const load = loadavg().map((value) => value.toFixed(2));
  const memory = Math.round(totalmem() / 2 ** 30);
  return `${cores.length} × ${cores[0]?.model.trim() ?? 'unknown processor'}, ${memory} GB, Node.js ${process.version}, load ${load.join(' ')}`;
}

export function judged(figure: Figure): FigureLine {
  return { ...figure, ok: figure.value <= figure.reach };
}

/** One line for people. */
export function sentence({ name, value, unit, floor, reach, ok }: FigureLine): string {
  const columns = [name.padEnd(30), `${shown(value)} ${unit}`.padStart(12), `floor ${shown(floor)}`.padStart(14)];
  return `  ${columns.join('  ')}  ${ok ? 'within' : 'NOT within'} ${shown(reach)} ${unit}`;
}

function shown(value: number): string {
  return value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0);
}
