/** Where this replica finds the others' world. `npm start` sets all of it. */
export interface Settings {
  readonly databaseUrl: string;
  /** Everything of the application, and the scheduler's tables, are in this schema. */
  readonly schema: string;
  readonly smtpPort: number;
  /** What people call this replica; the scheduler has an instance id of its own. */
  readonly replica: string;
}

export const SETTINGS = Symbol('SETTINGS');

export function readSettings(env: NodeJS.ProcessEnv): Settings {
  return {
    databaseUrl: required(env, 'DATABASE_URL'),
    schema: env.DATABASE_SCHEMA ?? 'public',
    smtpPort: Number(required(env, 'SMTP_PORT')),
    replica: env.REPLICA_NAME ?? 'A',
  };
}

function required(env: NodeJS.ProcessEnv, name: string): string {
  const value = env[name];
  if (!value) throw new Error(`${name} is not set. "npm start" starts everything and sets it.`);
  return value;
}
