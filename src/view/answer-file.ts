/**
 * The file of an export that holds the answer of an address of the API, both below `api/`: one for the list of runs, one for
 * the evaluations and their comparisons, one for each run, for what flipped in it, and for each step with all its groups. A file is gzipped lines: the address, a tab, and the
 * answer as JSON.
 */
export function answerFile(path: string): string {
  const [first, run, steps, which] = path.split('/');
  if (first === 'comparisons') return 'evaluations.gz';
  if (first === 'flips') return `flips/${run}.gz`;
  if (run === undefined) return `${first}.gz`;
  return steps === undefined ? `runs/${run}.gz` : `runs/${run}/${which}.gz`;
}
