/** Tokens from `from` to before `to`, rendered together. */
export interface Chunk {
  from: number;
  to: number;
}

/** A chunk ends at a line break from this size, and anywhere at the largest. */
const smallest = 192;
const largest = 384;

/**
 * Splits tokens into the parts that are rendered when they come near the window. A part begins on a new line, so it ends
 * at a line break where there is one.
 */
export function chunksOf(texts: readonly string[]): Chunk[] {
  const chunks: Chunk[] = [];
  for (let from = 0; from < texts.length; ) {
    const last = Math.min(from + largest, texts.length);
    let to = from + Math.min(smallest, last - from);
    while (to < last && !texts[to - 1]?.includes('\n')) to++;
    // A short rest is not worth a part.
    if (texts.length - to < smallest / 4) to = texts.length;
    chunks.push({ from, to });
    from = to;
  }
  return chunks;
}

/** Height of a chunk before it is rendered, in px, from the characters in it. */
export function guessHeight(texts: readonly string[], { from, to }: Chunk, width: number): number {
  const perLine = Math.max(10, Math.floor(width / 7.8));
  let lines = 1;
  let column = 0;
  for (let at = from; at < to; at++) {
    const text = texts[at] ?? '';
    column += Math.max(1, text.length);
    if (text.includes('\n')) {
      lines += text.split('\n').length - 1;
      column = 0;
    } else if (column > perLine) {
      lines++;
      column = text.length;
    }
  }
  return lines * 24;
}
