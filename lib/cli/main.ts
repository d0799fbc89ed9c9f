#!/usr/bin/env node
import { runCommand } from './run-command.js';

process.exitCode = await runCommand(process.argv.slice(2), {
  env: process.env,
  say: (text) => process.stdout.write(`${text}\n`),
  complain: (text) => process.stderr.write(`${text}\n`),
  ...(process.stdout.isTTY && { columns: process.stdout.columns }),
  interrupted: (stop) => process.once('SIGINT', stop).once('SIGTERM', stop),
});
