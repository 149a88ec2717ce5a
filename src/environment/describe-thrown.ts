/** One line about whatever was thrown, also where it is no error, or hides what it is. */
export function describeThrown(thrown: unknown): string {
  try {
    if (thrown instanceof Error && typeof thrown.message === 'string') return thrown.message || thrown.name;
    return String(thrown);
  } catch {
    return 'something that cannot be written as text';
  }
}
