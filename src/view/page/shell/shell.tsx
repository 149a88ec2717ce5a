import { useEffect, useRef } from 'preact/hooks';
import { connection } from '../api-client.ts';
import { useKeys } from '../parts/keys.ts';
import { theme, toggleTheme } from '../parts/theme.ts';
import { useRunTitles } from '../parts/titles.ts';
import { addressOf, goTo, place } from '../router.ts';
import { crumbsOf, panelAt } from '../routes.tsx';
import { Help, showHelp } from './help.tsx';

/** The page around a panel: crumbs, whether the page is live, help and theme. */
export function Shell() {
  const { path, query } = place.value;
  const crumbs = crumbsOf(path, useRunTitles(path[0] === 'runs' && path.length > 1));
  const main = useRef<HTMLElement>(null);
  const address = path.join('/');
  const first = useRef(true);
  const titles = crumbs.map(({ title }) => title).reverse();
  const title = [...titles.slice(0, -1), 'martingale'].join(' · ');
  useEffect(() => {
    document.title = title;
  }, [title]);
  useEffect(() => {
    // Screen readers go on at the new panel, as they would at a new page.
    if (!first.current) main.current?.focus({ preventScroll: true });
    first.current = false;
  }, [address]);
  useKeys([
    { key: '?', does: 'These keys', run: showHelp },
    {
      key: 'Escape',
      does: 'One level up',
      run: () => {
        const parent = crumbs.at(-2);
        if (parent) goTo(addressOf(parent.path));
      },
    },
    { key: 't', does: 'Dark or light', run: toggleTheme },
    { key: '/', does: 'Filter', run: () => document.querySelector<HTMLElement>('[data-filter]')?.focus() },
  ]);
  const other = theme.value === 'dark' ? 'light' : 'dark';
  return (
    <>
      <header class="bar">
        <a
          class="skip"
          href={location.hash}
          onClick={(event) => {
            event.preventDefault();
            main.current?.focus();
          }}
        >
          To the content
        </a>
        <nav class="crumbs" aria-label="Where you are">
          <ol>
            {crumbs.map(({ title: name, path: to }, index) => (
              <li key={to.join('/')}>
                {index === crumbs.length - 1 ? (
                  <span aria-current="page">{name}</span>
                ) : (
                  <a href={addressOf(to)}>{name}</a>
                )}
              </li>
            ))}
          </ol>
        </nav>
        <div class="bar-tools">
          <Connection />
          <button type="button" class="button plain" onClick={toggleTheme} aria-label={`Change to ${other}`}>
            <svg width="16" height="16" viewBox="0 0 16 16" aria-hidden="true">
              <circle cx="8" cy="8" r="6.25" fill="none" stroke="currentColor" stroke-width="1.5" />
              <path d="M8 1.75a6.25 6.25 0 0 1 0 12.5z" fill="currentColor" />
            </svg>
          </button>
          <button type="button" class="button plain" onClick={showHelp} aria-label="Keys">
            ?
          </button>
        </div>
      </header>
      <main ref={main} tabIndex={-1}>
        {panelAt(path, query)}
      </main>
      <Help />
    </>
  );
}

const words = { on: 'Live', off: 'Reconnecting', none: '' };

function Connection() {
  const state = connection.value;
  if (state === 'none') return null;
  return (
    <div class="live" role="status" data-state={state} title={words[state]}>
      <span>{words[state]}</span>
    </div>
  );
}
