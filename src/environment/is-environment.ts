/** Whether a value that no type has checked is what `defineEnvironment` gives. */
export function isEnvironment(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return 'name' in value && 'scenario' in value && 'open' in value && typeof value.open === 'function';
}
