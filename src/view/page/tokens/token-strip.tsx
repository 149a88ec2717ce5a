import { memo } from 'preact/compat';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { cut, visibleRuns } from '../parts/visible-text.ts';
import { type Chunk, chunksOf, guessHeight } from './chunks.ts';

/** What a token looks like. */
export interface TokenCell {
  text: string;
  /** Classes of its shade, and of whether it trained. */
  look: string;
  /** What stands before it: the role of the message that begins here. */
  heading?: string | undefined;
}

interface TokenStripProps {
  /** Begins the ids of its tokens. */
  id: string;
  cells: readonly TokenCell[];
  label: string;
  /** Index of the chosen token; -1 for none. */
  cursor: number;
  /** The cursor moves by the keyboard or a click. */
  onCursor: (at: number) => void;
  /** The pointer is over a token, or over none. */
  onHover: (at: number | null) => void;
}

/**
 * Tokens as text that flows, each an option of a list box: arrows move the cursor, by token and by line. Only the parts
 * near the window are rendered, so that a sequence may have a hundred thousand tokens.
 */
export function TokenStrip({ id, cells, label, cursor, onCursor, onHover }: TokenStripProps) {
  const box = useRef<HTMLDivElement>(null);
  const texts = useMemo(() => cells.map(({ text }) => text), [cells]);
  const chunks = useMemo(() => splitAtHeadings(cells, chunksOf(texts)), [cells, texts]);
  const moved = useRef(false);

  useEffect(() => {
    // A link to a token shows it; a pointer's click need not move what it clicked on.
    if (cursor <= 0 && !moved.current) {
      moved.current = true;
      return;
    }
    const token = box.current?.querySelector(`[data-at="${cursor}"]`);
    token?.scrollIntoView({ block: moved.current ? 'nearest' : 'center' });
    moved.current = true;
  }, [cursor]);

  const move = (to: number) => onCursor(Math.max(0, Math.min(cells.length - 1, to)));
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const target = targetOf(event.key, cursor, cells.length, box.current);
    if (target === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    move(target);
  };
  const at = (event: Event): number | null => {
    const token = event.target instanceof Element ? event.target.closest('[data-at]') : null;
    return token instanceof HTMLElement ? Number(token.dataset.at) : null;
  };
  return (
    <div
      ref={box}
      class="token-strip"
      role="listbox"
      tabIndex={0}
      aria-label={label}
      aria-orientation="horizontal"
      aria-activedescendant={cursor < 0 ? undefined : `${id}-${cursor}`}
      onKeyDown={onKeyDown}
      onClick={(event) => {
        const token = at(event);
        if (token !== null) onCursor(token);
      }}
      onMouseOver={(event) => onHover(at(event))}
      onFocus={() => onHover(null)}
      onMouseLeave={() => onHover(null)}
    >
      {chunks.map((chunk) => (
        <LazyChunk
          key={chunk.from}
          id={id}
          cells={cells}
          texts={texts}
          chunk={chunk}
          cursor={cursor >= chunk.from && cursor < chunk.to ? cursor : -1}
        />
      ))}
    </div>
  );
}

/** A message begins on a new line, under its heading. */
function splitAtHeadings(cells: readonly TokenCell[], chunks: readonly Chunk[]): Chunk[] {
  return chunks.flatMap(({ from, to }) => {
    const starts = [from];
    for (let at = from + 1; at < to; at++) if (cells[at]?.heading) starts.push(at);
    return starts.map((start, index) => ({ from: start, to: starts[index + 1] ?? to }));
  });
}

function targetOf(key: string, cursor: number, count: number, box: Element | null): number | undefined {
  if (key === 'ArrowRight') return cursor + 1;
  if (key === 'ArrowLeft') return cursor - 1;
  if (key === 'Home') return 0;
  if (key === 'End') return count - 1;
  if (key === 'PageDown') return cursor + 100;
  if (key === 'PageUp') return cursor - 100;
  if (key === 'ArrowDown') return inLine(box, cursor, 1) ?? cursor + 10;
  return key === 'ArrowUp' ? (inLine(box, cursor, -1) ?? cursor - 10) : undefined;
}

/** The token of the line below (1) or above (-1) that stands nearest; undefined if it is not rendered. */
function inLine(box: Element | null, cursor: number, direction: 1 | -1): number | undefined {
  const present = box?.querySelector(`[data-at="${cursor}"]`)?.getBoundingClientRect();
  if (!box || !present) return undefined;
  let line: number | undefined;
  let best: { at: number; distance: number } | undefined;
  for (let at = cursor + direction; ; at += direction) {
    const rect = box.querySelector(`[data-at="${at}"]`)?.getBoundingClientRect();
    if (!rect) return best?.at;
    if (Math.abs(rect.top - present.top) < present.height / 2) continue;
    line ??= rect.top;
    if (Math.abs(rect.top - line) > present.height / 2) return best?.at;
    const distance = Math.abs(rect.left - present.left);
    if (!best || distance < best.distance) best = { at, distance };
  }
}

interface ChunkProps {
  id: string;
  cells: readonly TokenCell[];
  chunk: Chunk;
  /** Index of the cursor's token; -1 if it is elsewhere. */
  cursor: number;
}

/** A part that is empty, but as high as its text, until it comes near the window. */
function LazyChunk({ texts, ...props }: ChunkProps & { texts: readonly string[] }) {
  const { chunk, cursor } = props;
  const holder = useRef<HTMLDivElement>(null);
  const [isNear, setNear] = useState(chunk.from === 0);
  const height = useRef<number | null>(null);
  useLayoutEffect(() => {
    const element = holder.current;
    if (!element) return;
    const observer = new IntersectionObserver(
      ([entry]) => {
        if (!entry) return;
        // Left behind, it keeps its height.
        if (!entry.isIntersecting && element.firstElementChild) height.current = element.offsetHeight;
        setNear(entry.isIntersecting);
      },
      { rootMargin: '800px' },
    );
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  const isShown = isNear || cursor >= 0;
  const guess = () => height.current ?? guessHeight(texts, chunk, holder.current?.offsetWidth ?? 800);
  return (
    // biome-ignore lint/a11y/useSemanticElements: a list box has groups, and no field sets.
    <div
      ref={holder}
      role="group"
      aria-label={`Tokens ${chunk.from + 1} to ${chunk.to}`}
      style={isShown ? {} : { height: `${guess()}px` }}
    >
      {isShown && <Tokens {...props} />}
    </div>
  );
}

const Tokens = memo(function Tokens({ id, cells, chunk: { from, to }, cursor }: ChunkProps) {
  return (
    <>
      {cells[from]?.heading && (
        <span class="token-heading" role="presentation">
          {cells[from].heading}
        </span>
      )}
      {cells.slice(from, to).map(({ text, look }, offset) => {
        const at = from + offset;
        return (
          <span
            key={at}
            id={`${id}-${at}`}
            data-at={at}
            role="option"
            tabIndex={-1}
            aria-selected={at === cursor}
            class={`token ${look}`}
          >
            {tokenText(text)}
          </span>
        );
      })}
    </>
  );
});

/** Characters of a token that are shown: no vocabulary has longer ones, a record may. */
const longestToken = 400;

/** The text of a token, with breaks that can be seen; a token without text has a sign. */
function tokenText(text: string) {
  if (text === '') return <span class="unseen">∅</span>;
  const shown = cut(text, longestToken);
  const more = text.length - shown.length;
  const runs = visibleRuns(shown);
  if (more > 0) runs.push({ kind: 'mark', text: `… +${more}`, title: `${more} more characters` });
  return runs.flatMap((run, index) =>
    run.kind === 'mark' ? (
      <span key={index} class="unseen" title={run.title}>
        {run.text}
      </span>
    ) : (
      run.text.split(/(\n)/).map((part, at) =>
        part === '\n' ? (
          <span key={`${index}-${at}`} class="unseen">
            {'↵\n'}
          </span>
        ) : (
          part
        ),
      )
    ),
  );
}
