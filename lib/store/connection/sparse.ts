/** A record without what is null or undefined: a recordset has null there in any case, and a message is half as long. */
export function sparse(record: object): object {
  return Object.fromEntries(Object.entries(record).filter(([, value]) => value !== null && value !== undefined));
}
