import type { ComponentChildren } from 'preact';
import type { Loaded } from '../api-client.ts';

/** An empty state: why there is nothing to show, and what to do about it. */
export function Nothing({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="state">
      <strong>{title}</strong>
      {children}
    </div>
  );
}

/**
 * Shows data of the API: its children with the data, else why there is none. While old data is refreshed it stays, and a
 * failure of the refresh stands above it.
 */
export function Data<T>({ of, children }: { of: Loaded<T>; children: (data: T) => ComponentChildren }) {
  if (of.data !== undefined)
    return (
      <>
        {of.error && (
          <p class="tag warn" role="alert">
            Not up to date: {of.error}
          </p>
        )}
        {children(of.data)}
      </>
    );
  if (of.error)
    return (
      <div role="alert">
        <Nothing title="This cannot be shown">
          <p>{of.error}</p>
        </Nothing>
      </div>
    );
  return (
    <div class="state" aria-busy="true">
      <span class="late">Loading</span>
    </div>
  );
}
