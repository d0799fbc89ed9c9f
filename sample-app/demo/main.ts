import 'reflect-metadata';
import { readArguments, USAGE, type Arguments } from './arguments.js';
import { Cleanup } from './cleanup.js';
import { Demo } from './demo.js';
import { explain } from './problem.js';
import { openScreen } from './terminal/screen.js';
import { colorsFor } from './terminal/style.js';

const INTERRUPTED = 130;

process.exitCode = await main();

/** @returns the exit code */
async function main(): Promise<number> {
  try {
    const args = readArguments(process.argv.slice(2));
    if (!args.help) return await show(args);
    console.log(USAGE);
    return 0;
  } catch (error) {
    console.error(explain(error));
    return 1;
  }
}

/** Whatever ends it, nothing stays behind. */
async function show(args: Arguments): Promise<number> {
  const output = args.json ? process.stderr : process.stdout;
  const signal = interruption();
  const screen = openScreen(output);
  const cleanup = new Cleanup();
  let interrupted = false;
  const demo = new Demo(args, { screen, colors: colorsFor(output, process.env), cleanup, signal, env: process.env });
  try {
    const verdict = await demo.run();
    if (args.json) process.stdout.write(`${JSON.stringify(verdict)}\n`);
    if (args.keep) await demo.keep();
    else await demo.stop();
    return verdict.held ? 0 : 1;
  } catch (error) {
    if (!signal.aborted) throw error;
    interrupted = true;
    return INTERRUPTED;
  } finally {
    screen.close();
    for (const failure of await cleanup.run()) console.error(`Cleaning up: ${explain(failure)}`);
    if (interrupted) screen.line('Interrupted before the verdict. Nothing is left running.');
  }
}

/** One Ctrl-C may come as several signals: from the terminal and from npm. They are one. */
function interruption(): AbortSignal {
  const controller = new AbortController();
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(name, () => controller.abort());
  // The reader of a pipe has gone.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => controller.abort());
  return controller.signal;
}
