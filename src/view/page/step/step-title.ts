/** The name of a step or an evaluation by its `:which`: `Step 3`, `Before`, `After step 10`. */
export function stepTitle(which: string): string {
  if (/^\d+$/.test(which)) return `Step ${which}`;
  const words = which.replaceAll('-', ' ');
  return words.charAt(0).toUpperCase() + words.slice(1);
}
