/** One line about whatever was thrown, also where it is no error, or hides what it is. */
export function describeThrown(thrown: unknown): string {
  try {
    if (thrown instanceof Error && typeof thrown.message === 'string') return thrown.message || thrown.name;
    return String(thrown);
  } catch {
    return 'something that cannot be written as text';
  }
}

/** What was given in place of a number, such that the text "1" does not read like one. */
export function describeValue(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(value);
  return typeof value === 'bigint' ? `the bigint ${value}` : describeThrown(value);
}
