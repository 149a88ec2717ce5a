import { largestOf } from './extremes.ts';
/**
 * Rows of cells as lines with aligned columns, two spaces apart. All rows have as many cells as the first.
 * @param rightFrom Index of the first right-aligned column. Default: none.
 */
export function alignColumns(
  rows: readonly (readonly string[])[],
  { rightFrom = Number.POSITIVE_INFINITY }: { rightFrom?: number } = {},
): string[] {
  const [first = []] = rows;
  const widths = first.map((_, column) => largestOf(rows.map((row) => row[column]?.length ?? 0)));
  return rows.map((row) =>
    row
      .map((cell, column) => {
        const width = widths[column] ?? 0;
        return column < rightFrom ? cell.padEnd(width) : cell.padStart(width);
      })
      .join('  ')
      .trimEnd(),
  );
}
