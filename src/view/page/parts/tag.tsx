import type { ComponentChildren } from 'preact';

type Meaning = 'good' | 'bad' | 'warn' | 'plain';

const shapes: Record<Meaning, string> = {
  good: 'M2.5 6.5l2.5 2.5 4.5-6',
  bad: 'M3 3l6 6M9 3l-6 6',
  warn: 'M6 1.5l5 9h-10zM6 5v2.5M6 9v.01',
  plain: 'M3 6h6',
};

/** A word with its meaning as colour and shape. */
export function Tag({ is, children, title }: { is: Meaning; children: ComponentChildren; title?: string }) {
  return (
    <span class={`tag ${is}`} title={title}>
      <svg width="12" height="12" viewBox="0 0 12 12" aria-hidden="true">
        <path
          d={shapes[is]}
          fill="none"
          stroke="currentColor"
          stroke-width="1.5"
          stroke-linecap="round"
          stroke-linejoin="round"
        />
      </svg>
      {children}
    </span>
  );
}
