const NAMES = ['DATABASE_URL', 'PGHOST', 'PGHOSTADDR', 'PGPORT', 'PGUSER', 'PGPASSWORD', 'PGDATABASE', 'NODE_ENV'];

/** Runs the work with these variables alone naming a database, and puts back what was there. */
export async function withEnvironment<Result>(
  variables: Record<string, string>,
  work: () => Promise<Result>,
): Promise<Result> {
  const before = Object.fromEntries(NAMES.map((name) => [name, process.env[name]]));
  for (const name of NAMES) if (name !== 'NODE_ENV') delete process.env[name];
  Object.assign(process.env, variables);
  try {
    return await work();
  } finally {
    for (const [name, value] of Object.entries(before)) {
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    }
  }
}
