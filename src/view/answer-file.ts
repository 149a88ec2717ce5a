/**
 * The file of an export with the answer of an address of the API, both below `api/`. There is one file for the list of
 * runs, one for the evaluations and their comparisons, one for each run, one for the flips of each run, and one for each
 * step with all its groups. Each line of a gzipped file is an address, a tab, and the answer as JSON.
 */
export function answerFile(path: string): string {
  const [first, run, steps, which] = path.split('/');
  if (first === 'comparisons') return 'evaluations.gz';
  if (first === 'flips') return `flips/${run}.gz`;
  if (run === undefined) return `${first}.gz`;
  return steps === undefined ? `runs/${run}.gz` : `runs/${run}/${which}.gz`;
}
