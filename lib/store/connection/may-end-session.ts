/**
 * SQL for whether the current role may end sessions of the role with that oid, as `pg_terminate_backend` judges it: it would
 * fail where it may not, and with it the pass that asked.
 * @param role a qualified column: it stands inside queries that have an `oid` of their own
 */
export function mayEndSessionsOf(role: string): string {
  const isSuperuser = (which: string) => `exists (select from pg_roles where ${which} and rolsuper)`;
  return `((pg_has_role(${role}, 'usage') or pg_has_role('pg_signal_backend', 'usage'))
          and (not ${isSuperuser(`pg_roles.oid = ${role}`)} or ${isSuperuser('pg_roles.rolname = current_user')}))`;
}
