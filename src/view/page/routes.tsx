import type { ComponentType, VNode } from 'preact';
import { Compare } from './compare/compare.tsx';
import { Flips } from './flips/flips.tsx';
import { Group } from './group/group.tsx';
import { Nothing } from './parts/states.tsx';
import { stepTitle } from './parts/titles.ts';
import { Rollout } from './rollout/rollout.tsx';
import type { PanelProps } from './router.ts';
import { Run } from './run/run.tsx';
import { Runs } from './run-list/runs.tsx';
import { Service } from './service/service.tsx';
import { Step } from './step/step.tsx';
import { Timeline } from './timeline/timeline.tsx';

/** The names of a pattern: `run` and `step` of `runs/:run/steps/:step`. */
type NamesIn<Pattern extends string> = Pattern extends `${infer First}/${infer Rest}`
  ? NamesIn<First> | NamesIn<Rest>
  : Pattern extends `:${infer Name}`
    ? Name
    : never;

interface Match {
  title: string;
  panel(query: PanelProps['query']): VNode;
}

/** Gives a run's title by its id. */
type RunTitle = (id: string) => string;

type Route = (path: readonly string[], runTitle?: RunTitle) => Match | null;

/**
 * The panels by their address, as `route('runs/:run', ({ run }) => run, Run)`. The second names the panel in the crumbs
 * and in the title of the page.
 */
const routes: readonly Route[] = [
  route('', () => 'Runs', Runs),
  route('compare', () => 'Compare', Compare),
  route('service', () => 'Service', Service),
  route('runs/:run', ({ run }, runTitle) => runTitle(run), Run),
  route('runs/:run/steps/:which', ({ which }) => stepTitle(which), Step),
  route('runs/:run/steps/:which/timeline', () => 'Timeline', Timeline),
  route('runs/:run/steps/:which/groups/:group', ({ group }) => `Group ${group}`, Group),
  route(
    'runs/:run/steps/:which/groups/:group/rollouts/:rollout',
    ({ rollout }) => `Rollout ${rollout}`,
    Rollout,
  ),
  route(
    'flips/:runA/:whichA/:runB/:whichB',
    ({ whichA, whichB }) => `${stepTitle(whichA)} and ${stepTitle(whichB).toLowerCase()}`,
    Flips,
  ),
];

function route<const Pattern extends string>(
  pattern: Pattern,
  title: (params: Record<NamesIn<Pattern>, string>, runTitle: RunTitle) => string,
  Panel: ComponentType<PanelProps<NamesIn<Pattern>>>,
): Route {
  const parts = pattern.split('/').filter(Boolean);
  return (path, runTitle = (id) => id) => {
    const fits =
      parts.length === path.length && parts.every((part, at) => part[0] === ':' || part === path[at]);
    if (!fits) return null;
    const named = parts.flatMap((part, at) => (part[0] === ':' ? [[part.slice(1), path[at]]] : []));
    const params: Record<NamesIn<Pattern>, string> = Object.fromEntries(named);
    // Another run is another panel; another query is not.
    return {
      title: title(params, runTitle),
      panel: (query) => <Panel key={path.join('/')} params={params} query={query} />,
    };
  };
}

const matchOf = (path: readonly string[], runTitle?: RunTitle): Match | undefined =>
  routes.map((matches) => matches(path, runTitle)).find((match) => match !== null);

/** The panels above a path and the one at it, outermost first. */
export const crumbsOf = (
  path: readonly string[],
  runTitle: RunTitle,
): { title: string; path: readonly string[] }[] =>
  Array.from({ length: path.length + 1 }, (_, length) => path.slice(0, length)).flatMap((start) => {
    const match = matchOf(start, runTitle);
    return match ? [{ title: match.title, path: start }] : [];
  });

/** The panel of a path. */
export const panelAt = (path: readonly string[], query: PanelProps['query']): VNode =>
  matchOf(path)?.panel(query) ?? (
    <Nothing title="There is no such page">
      <p>
        The address <code>{path.join('/')}</code> is not one of this page. <a href="#/">Show all runs</a>
      </p>
    </Nothing>
  );
