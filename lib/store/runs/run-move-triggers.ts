import { FIRST_STATES, RUN_MOVES, type RunMove } from '../../domain/runs/run-states.js';
import type { Tables } from '../tables.js';

/**
 * The statements that make the database refuse every move that `run-states` does not have, whoever tries. The list stands in
 * the function, which a session reads once: a condition of the trigger would be read again by every statement.
 * @param moves of statuses without quotes in them
 */
export function createMoveTriggers({ jobRuns, refuseMove }: Tables, moves: readonly RunMove[] = RUN_MOVES): string[] {
  const allowed = moves.map(({ from, to }) => `'${from} ${to}'`).join(', ');
  const first = FIRST_STATES.map(({ status }) => `'${status}'`).join(', ');
  return [
    `create or replace function ${refuseMove}() returns trigger language plpgsql as $$
     begin
       if tg_op = 'INSERT' then
         raise exception 'A run may not begin as % (% of %)', new.status, new.job_name, new.fire_time
         using errcode = 'check_violation', constraint = 'job_runs_moves_are_known', table = 'job_runs';
       end if;
       if old.status || ' ' || new.status in (${allowed}) then
         return new;
       end if;
       raise exception 'A run may not go from % to % (% of %)', old.status, new.status, new.job_name, new.fire_time
       using errcode = 'check_violation', constraint = 'job_runs_moves_are_known', table = 'job_runs';
     end $$`,
    `create or replace trigger job_runs_begin_as_they_may
     before insert on ${jobRuns}
     for    each row
     when  (new.status not in (${first}))
     execute function ${refuseMove}()`,
    `create or replace trigger job_runs_move_as_they_may
     before update of status on ${jobRuns}
     for    each row
     when  (old.status <> new.status)
     execute function ${refuseMove}()`,
  ];
}
