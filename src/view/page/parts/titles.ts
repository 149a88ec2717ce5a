import type { RunRow, RunsList } from '../../api.ts';
import { useApi } from '../api-client.ts';

/** What stands small beside the title of a run: its folder where that is not the title, else what it trained. */
export const subtitleOf = ({ name, title, environment, model }: RunRow): string[] =>
  title === name ? [environment, model].filter((part) => part !== null) : [name];

/** The titles of runs by their ids; until they are known, and for a run that is gone, the id as a path. */
export function useRunTitles(isNeeded: boolean): (id: string) => string {
  const { data } = useApi<RunsList>(isNeeded ? 'runs' : null);
  return (id) => data?.runs.find((run) => run.id === id)?.title ?? id.replaceAll('~', '/');
}

/** The name of a step or an evaluation by its `:which`: `Step 3`, `Before`, `After step 10`. */
export function stepTitle(which: string): string {
  if (/^\d+$/.test(which)) return `Step ${which}`;
  const words = which.replaceAll('-', ' ');
  return words.charAt(0).toUpperCase() + words.slice(1);
}
