import { Command, CommanderError } from 'commander';
import { changingCommands } from './changing.js';
import { CommandSet } from './command-set.js';
import { lookingCommands } from './looking.js';
import { type Console, EXIT } from './run-command.js';

const EXIT_CODES = `
Without --url they need the database alone, named by DATABASE_URL or by PGHOST,
PGDATABASE and their like. Times are RFC 3339 (2026-12-01T02:00:00Z), or as the
clock on the wall of the job's zone shows them ("2026-12-01 03:00").

Exit codes: 0 done. 1 done, and the answer is bad news. 2 wrong usage. 3 refused:
no such job or run, or not in this state. 4 the database could not be reached, or
failed.`;

/** @returns the exit code */
export async function operate(args: readonly string[], terminal: Console): Promise<number> {
  let code: number = EXIT.taken;
  const program = new Command('nestjs-distributed-cron')
    .description('What an operator does with the jobs of a database, without their application.')
    .addHelpText('after', EXIT_CODES)
    .configureOutput({
      writeOut: (text) => terminal.say(text.trimEnd()),
      writeErr: (text) => terminal.complain(text.trimEnd()),
    })
    .exitOverride();
  program.command('trigger <job>').description('deliver one occurrence from outside; see trigger --help');
  const set = new CommandSet(program, terminal, () => (code = EXIT.notDone));
  lookingCommands(set);
  changingCommands(set);
  set.bare('completion', 'a script for bash or zsh: source <(nestjs-distributed-cron completion)', async () => {
    const names = program.commands.map((one) => one.name()).join(' ');
    terminal.say(`[ -n "$ZSH_VERSION" ] && autoload -U +X bashcompinit && bashcompinit
complete -o default -W '${names}' nestjs-distributed-cron`);
  });
  for (const command of program.commands) command.exitOverride().copyInheritedSettings(program);
  try {
    await program.parseAsync(args, { from: 'user' });
    return code;
  } catch (error) {
    // It has said what is wrong.
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.taken : EXIT.usage;
    throw error;
  }
}
