import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';

interface VirtualListProps<Item> {
  items: readonly Item[];
  /** Height of every row, in px. */
  rowHeight: number;
  label: string;
  /** Row that the keyboard is at; scrolled into view when it changes. */
  cursor?: number | undefined;
  /** Height in px of the parts that cover the top of the window while the rows scroll. Default: the bar of the page, 48. */
  coveredTop?: number;
  /** Renders what is in a row. */
  children: (item: Item, index: number) => ComponentChildren;
  keyOf: (item: Item, index: number) => string | number;
}

/** Rows beyond both ends of the window that are rendered, so that scrolling does not show gaps. */
const margin = 8;

/**
 * A list that scrolls with the page and renders only the rows on the screen: thousands stay smooth, and the page's own
 * scroll bar, search position and back button work. Rows say their place to screen readers.
 */
export function VirtualList<Item>(props: VirtualListProps<Item>) {
  const { items, rowHeight, label, cursor, coveredTop = 48, children, keyOf } = props;
  const list = useRef<HTMLUListElement>(null);
  const [range, setRange] = useState({ from: 0, to: 40 });

  useLayoutEffect(() => {
    let frame = 0;
    const measure = () => {
      frame = 0;
      const top = list.current?.getBoundingClientRect().top ?? 0;
      const from = Math.max(0, Math.floor(-top / rowHeight) - margin);
      const to = Math.ceil((innerHeight - top) / rowHeight) + margin;
      setRange((old) => (old.from === from && old.to === to ? old : { from, to }));
    };
    const later = () => {
      frame ||= requestAnimationFrame(measure);
    };
    measure();
    addEventListener('scroll', later, { passive: true });
    const resized = new ResizeObserver(later);
    resized.observe(document.body);
    return () => {
      removeEventListener('scroll', later);
      resized.disconnect();
      cancelAnimationFrame(frame);
    };
  }, [rowHeight]);

  useEffect(() => {
    if (cursor === undefined || cursor < 0 || !list.current) return;
    const top = list.current.getBoundingClientRect().top + cursor * rowHeight;
    // Below what covers the top, with a row to spare on both sides.
    const above = top - coveredTop - rowHeight;
    const below = top + 2 * rowHeight - innerHeight;
    if (above < 0) scrollBy(0, above);
    else if (below > 0) scrollBy(0, below);
  }, [cursor, rowHeight, coveredTop]);

  const from = Math.min(range.from, Math.max(0, items.length - 1));
  return (
    <ul
      ref={list}
      class="virtual-list"
      aria-label={label}
      style={{ height: `${items.length * rowHeight}px` }}
    >
      {items.slice(from, range.to).map((item, offset) => {
        const index = from + offset;
        return (
          <li
            key={keyOf(item, index)}
            class={index === cursor ? 'row cursor' : 'row'}
            aria-setsize={items.length}
            aria-posinset={index + 1}
            aria-current={index === cursor ? 'true' : undefined}
            style={{ height: `${rowHeight}px`, transform: `translateY(${index * rowHeight}px)` }}
          >
            {children(item, index)}
          </li>
        );
      })}
    </ul>
  );
}
