import { stripVTControlCharacters } from 'node:util';

/** Lines that stay, and below them, on a terminal, a panel that changes in place. */
export interface Screen {
  line(text: string): void;
  /** Shows nothing where the output is no terminal. */
  panel(lines: readonly string[]): void;
  /** Leaves the terminal as it was. */
  close(): void;
}

export function openScreen(stream: NodeJS.WriteStream): Screen {
  return stream.isTTY && process.env.TERM !== 'dumb' ? new LiveScreen(stream) : new PlainScreen(stream);
}

class PlainScreen implements Screen {
  constructor(private readonly stream: NodeJS.WriteStream) {}

  line(text: string): void {
    this.stream.write(`${text}\n`);
  }

  panel(): void {}

  close(): void {}
}

const HIDE_CURSOR = '\u001b[?25l';
const SHOW_CURSOR = '\u001b[?25h';
const NO_STYLE = '\u001b[0m';

class LiveScreen implements Screen {
  private shown: readonly string[] = [];
  private open = true;

  constructor(private readonly stream: NodeJS.WriteStream) {
    stream.write(HIDE_CURSOR);
  }

  line(text: string): void {
    this.stream.write(`${this.erased()}${text}\n${this.drawn()}`);
  }

  panel(lines: readonly string[]): void {
    if (!this.open) return;
    const erased = this.erased();
    this.shown = lines;
    this.stream.write(erased + this.drawn());
  }

  close(): void {
    if (!this.open) return;
    this.open = false;
    const erased = this.erased();
    this.shown = [];
    this.stream.write(erased + SHOW_CURSOR);
  }

  private erased(): string {
    return this.shown.length === 0 ? '' : `\u001b[${this.shown.length}A\r\u001b[J`;
  }

  private drawn(): string {
    return this.shown.map((line) => `${fit(line, this.stream.columns - 1)}\n`).join('');
  }
}

/** A line that wraps would be two, and the panel would move. */
function fit(line: string, width: number): string {
  if (stripVTControlCharacters(line).length <= width) return line;
  let room = width;
  const parts = line.split(/(\u001b\[[\d;]*m)/).map((part) => {
    if (part.startsWith('\u001b')) return part;
    const kept = part.slice(0, room);
    room -= kept.length;
    return kept;
  });
  return parts.join('') + (line.includes(NO_STYLE.slice(0, 2)) ? NO_STYLE : '');
}
