/**
 * SQL for: the flag is turned off in the table. One without a row is on, and so is none.
 * @param flag SQL for its name, or null
 */
export function isOff(jobFlags: string, flag: string): string {
  return `exists (
    select from ${jobFlags} switch
    where  switch.name = ${flag}
    and    not switch.is_on)`;
}
