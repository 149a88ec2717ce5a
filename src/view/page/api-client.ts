import { type Signal, signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { messageOf } from '../../util/error.ts';
import { isExport, readAnswer } from './export-answers.ts';

/** An answer of the API, or why there is none yet. */
export interface Loaded<T> {
  /** The last answer; it stays while it is fetched again. */
  data: T | undefined;
  /** What went wrong at the last try, else null. */
  error: string | null;
}

interface Entry {
  loaded: Signal<Loaded<unknown>>;
  users: number;
  /** Whether the answer may have changed since it was fetched. */
  isStale: boolean;
  isFetching: boolean;
}

/** Whether changes arrive by themselves; `none` in an export, which does not change. */
export const connection = signal<'on' | 'off' | 'none'>('none');

const entries = new Map<string, Entry>();

/** Answers that no panel shows are kept for the back button, up to this number. */
const maxIdle = 60;

/**
 * The answer of an address of the API, by its path below `api/`. It is fetched once for all panels that show it, and
 * again when the folder that it comes from changes. `T` is the type that `../api.ts` gives for the path. Null fetches
 * nothing.
 */
export function useApi<T>(path: string | null): Loaded<T> {
  const entry = path === null ? null : entryOf(path);
  useEffect(() => {
    if (!entry || path === null) return;
    entry.users++;
    if (entry.isStale) void refresh(path, entry);
    return () => {
      entry.users--;
      forgetIdle();
    };
  }, [entry, path]);
  return (entry?.loaded.value ?? nothing) as Loaded<T>;
}

const nothing: Loaded<unknown> = { data: undefined, error: null };

function entryOf(path: string): Entry {
  let entry = entries.get(path);
  if (!entry) {
    entry = { loaded: signal(nothing), users: 0, isStale: true, isFetching: false };
    entries.set(path, entry);
  }
  return entry;
}

async function refresh(path: string, entry: Entry): Promise<void> {
  if (entry.isFetching) return;
  entry.isFetching = true;
  try {
    // A change while the answer is on its way asks for another one.
    while (entry.isStale) {
      entry.isStale = false;
      const data = await fetchJson(path);
      entry.loaded.value = { data, error: null };
    }
  } catch (error) {
    entry.isStale = true;
    entry.loaded.value = {
      data: entry.loaded.peek().data,
      error: messageOf(error),
    };
  } finally {
    entry.isFetching = false;
  }
}

async function fetchJson(path: string): Promise<unknown> {
  if (isExport) return readAnswer(path);
  const response = await fetch(`api/${path}.json`).catch(() => {
    throw new Error('The program that shows this page does not answer. Is `martingale view` still running?');
  });
  const text = await response.text();
  if (!response.ok) throw new Error(messageIn(text) ?? `${response.status} ${response.statusText}`);
  return JSON.parse(text);
}

/** Asks something that is not an address of its own, such as a chat. @throws Error with the API's message. */
export async function post<Answer>(path: string, body: object): Promise<Answer> {
  const response = await fetch(`api/${path}`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(messageIn(text) ?? `${response.status} ${response.statusText}`);
  return JSON.parse(text);
}

/** The message of an error's body `{ "error": { "message" } }`. */
function messageIn(text: string): string | undefined {
  try {
    return JSON.parse(text).error.message;
  } catch {
    return undefined;
  }
}

function forgetIdle(): void {
  const idle = [...entries].filter(([, { users }]) => users === 0);
  for (const [path] of idle.slice(0, Math.max(0, idle.length - maxIdle))) entries.delete(path);
}

/** Marks answers as old, and fetches those again that a panel shows. */
function refreshAll(isChanged: (path: string) => boolean): void {
  for (const [path, entry] of entries) {
    if (!isChanged(path)) continue;
    entry.isStale = true;
    if (entry.users > 0) void refresh(path, entry);
  }
}

/** Follows the changes of the folders, until the page is closed. */
export function followChanges(): void {
  if (isExport) return;
  const source = new EventSource('api/events');
  source.addEventListener('open', () => {
    // What changed while there was no connection is not known.
    if (connection.peek() === 'off') refreshAll(() => true);
    connection.value = 'on';
  });
  source.addEventListener('error', () => {
    connection.value = source.readyState === EventSource.CLOSED ? 'none' : 'off';
  });
  source.addEventListener('change', ({ data }) => {
    const { run } = JSON.parse(data);
    const isChanged = (path: string) =>
      /^(runs|evaluations|comparisons\/.*)$/.test(path) || path.startsWith(`runs/${encodeURIComponent(run)}`);
    refreshAll(isChanged);
  });
}
