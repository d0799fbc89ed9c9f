/** The first instant of the month, UTC, that holds the given one. */
export function monthOf(instant: Date): Date {
  return new Date(Date.UTC(instant.getUTCFullYear(), instant.getUTCMonth(), 1));
}

/** The first instants of this month, of the ones before and of the ones after it, ascending. */
export function monthsAround(instant: Date, before: number, after: number): Date[] {
  const year = instant.getUTCFullYear();
  const month = instant.getUTCMonth();
  return Array.from({ length: before + 1 + after }, (_, index) => new Date(Date.UTC(year, month - before + index, 1)));
}

/** The first instant of the following month. */
export function nextMonth(month: Date): Date {
  return new Date(Date.UTC(month.getUTCFullYear(), month.getUTCMonth() + 1, 1));
}
