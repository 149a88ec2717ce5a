import { clip, displayWidth, type Line, pad, plainText, type Segment, type Style } from './text.ts';

export interface Column {
  title: string;
  /** Default left. */
  align?: 'left' | 'right';
}

export interface Cell {
  text: string;
  style?: Style;
}

const gap = '   ';

/** Narrows the widest columns until the table fits. */
function columnWidths(wanted: number[], space: number): number[] {
  const widths = [...wanted];
  const total = () => widths.reduce((sum, width) => sum + width, 0);
  while (total() > space && Math.max(...widths) > 1) {
    const widest = widths.indexOf(Math.max(...widths));
    widths[widest] = (widths[widest] ?? 1) - 1;
  }
  return widths;
}

/**
 * A table with a rule under its titles, at most `width` cells wide: long cells are cut with an ellipsis.
 * Rows shorter than the columns are filled with empty cells.
 */
export function table(columns: readonly Column[], rows: readonly (readonly Cell[])[], width: number): Line[] {
  const wanted = columns.map((column, index) =>
    Math.max(displayWidth(column.title), ...rows.map((row) => displayWidth(row[index]?.text ?? ''))),
  );
  const widths = columnWidths(wanted, width - gap.length * (columns.length - 1));

  const drawRow = (cells: readonly Cell[]): Line =>
    columns.flatMap((column, index): Line => {
      const cell = cells[index] ?? { text: '' };
      const size = widths[index] ?? 0;
      const text = pad(plainText(clip([cell], size)), size, column.align);
      const segment: Segment = { ...cell, text };
      return index === 0 ? [segment] : [{ text: gap }, segment];
    });

  return [
    drawRow(columns.map((column): Cell => ({ text: column.title, style: 'dim' }))),
    [{ text: widths.map((size) => '─'.repeat(size)).join('─'.repeat(gap.length)), style: 'dim' }],
    ...rows.map(drawRow),
  ];
}

/** Two blocks of lines beside each other, divided by a rule. Both are given their own width. */
export function sideBySide(left: readonly Line[], right: readonly Line[], leftWidth: number): Line[] {
  return Array.from({ length: Math.max(left.length, right.length) }, (_, index) => {
    const line = clip(left[index] ?? [], leftWidth);
    const space = ' '.repeat(Math.max(0, leftWidth - displayWidth(plainText(line))));
    return [...line, { text: space }, { text: ' │ ', style: 'dim' }, ...(right[index] ?? [])];
  });
}
