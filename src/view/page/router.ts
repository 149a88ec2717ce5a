/**
 * The addresses of the page. They are in the hash (`#/runs/a/steps/3?sort=reward`), so that an export opens from any
 * web server, and they hold the whole state of a panel, so that every view is a link and the back button works.
 *
 * To add a panel:
 * - A folder of its own, with a component that takes {@link PanelProps}; its row in `routes.tsx`. The crumbs above it
 *   are the rows whose pattern is a beginning of its own.
 * - Its data by `useApi` (`api-client.ts`), which refetches while the run goes on.
 * - Its choices (filter, sort, selection) by `query` and {@link setQuery}: `replace` for what moves often.
 * - Its keys by `useKeys` (`shell/keys.ts`), which lists them in the help.
 * - Its style in a file of its folder, imported by the component, with the variables of `styles/base.css`: colours by
 *   meaning, `--space` of 8 px. Shared parts (charts, lists, numbers, states) are in `parts/`.
 * - Text of models only as children of elements, inside of `class="model-text"`.
 */
import { signal } from '@preact/signals';

/** What a panel gets. Changing parameters of the address do not make a new component. */
export interface PanelProps<Name extends string = never> {
  params: Readonly<Record<Name, string>>;
  query: Readonly<Record<string, string | undefined>>;
}

interface Place {
  path: readonly string[];
  query: Readonly<Record<string, string | undefined>>;
}

/** Where the page is. */
export const place = signal<Place>(parse(location.hash));

const follow = () => {
  place.value = parse(location.hash);
};

// The browser would restore the position before the panel is there.
history.scrollRestoration = 'manual';
window.addEventListener('popstate', ({ state }) => {
  follow();
  requestAnimationFrame(() => scrollTo(0, Number(state?.scrollY ?? 0)));
});

/** Links of the page go through {@link goTo}, which remembers the position for the back button. */
document.addEventListener('click', (event) => {
  const link = event.target instanceof Element ? event.target.closest('a') : null;
  const address = link?.getAttribute('href') ?? '';
  const isPlain = event.button === 0 && !event.ctrlKey && !event.metaKey && !event.shiftKey && !event.altKey;
  if (!isPlain || event.defaultPrevented || !address.startsWith('#/') || link?.target) return;
  event.preventDefault();
  goTo(address);
});

function parse(hash: string): Place {
  const [path = '', query = ''] = hash.replace(/^#\/?/, '').split(/\?(.*)/s);
  return {
    path: path.split('/').filter(Boolean).map(decode),
    query: Object.fromEntries(new URLSearchParams(query)),
  };
}

/** The address of a panel: `addressOf(['runs', run, 'steps', 3], { sort: 'reward' })`. Null and empty values are left out. */
export function addressOf(
  path: readonly (string | number)[],
  query: Readonly<Record<string, string | number | null | undefined>> = {},
): string {
  const set = Object.entries(query).flatMap(([name, value]) =>
    value === null || value === undefined || value === '' ? [] : [[name, String(value)]],
  );
  const search = new URLSearchParams(set).toString();
  return `#/${path.map((part) => encodeURIComponent(part)).join('/')}${search && `?${search}`}`;
}

/** Goes to an address of {@link addressOf}. With `replace`, the back button skips the present one. */
export function goTo(address: string, { replace = false } = {}): void {
  if (address === location.hash) return;
  const before = place.peek().path.join('/');
  if (replace) history.replaceState(history.state, '', address);
  else {
    history.replaceState({ scrollY }, '');
    history.pushState(null, '', address);
  }
  follow();
  if (place.peek().path.join('/') !== before) scrollTo(0, 0);
}

/** Changes parts of the query and keeps the others; null removes one. */
export function setQuery(
  changes: Readonly<Record<string, string | number | null>>,
  { replace = false } = {},
): void {
  const { path, query } = place.peek();
  goTo(addressOf(path, { ...query, ...changes }), { replace });
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
