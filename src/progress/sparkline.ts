const blocks = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'] as const;

/** Means of equal stretches, so that a long series keeps its shape in few cells. */
function resample(values: readonly number[], cells: number): number[] {
  if (values.length <= cells) return [...values];
  return Array.from({ length: cells }, (_, cell) => {
    const from = Math.floor((cell * values.length) / cells);
    const to = Math.floor(((cell + 1) * values.length) / cells);
    const stretch = values.slice(from, Math.max(to, from + 1));
    return stretch.reduce((sum, value) => sum + value, 0) / stretch.length;
  });
}

/** A series as a curve of at most `cells` characters, from 0 to 1 unless its values lie outside. */
export function sparkline(values: readonly number[], cells: number): string {
  if (values.length === 0 || cells <= 0) return '';
  const points = resample(values, cells);
  const low = Math.min(0, ...points);
  const high = Math.max(1, ...points);
  return points
    .map((point) => {
      const level = Math.floor(((point - low) / (high - low)) * blocks.length);
      return blocks[Math.min(blocks.length - 1, Math.max(0, level))];
    })
    .join('');
}

/** A bar of `cells` characters; a total of 0 or null draws it empty. */
export function bar(done: number, total: number | null, cells: number): { filled: string; rest: string } {
  const share = total ? Math.min(1, Math.max(0, done / total)) : 0;
  const filled = Math.round(share * Math.max(0, cells));
  return { filled: '█'.repeat(filled), rest: '░'.repeat(Math.max(0, cells - filled)) };
}
