import type { ComponentChildren } from 'preact';

interface Column {
  label: ComponentChildren;
  class?: string | undefined;
  /** Shown when the pointer rests on the label. */
  title?: string | undefined;
}

/** A column of numbers, which end at its right edge. */
export const numbers = (label: string, title?: string): Column => ({ label, class: 'number', title });

/** The head of a table: a text is a column of texts, `false` none. */
export function TableHead({ columns }: { columns: readonly (string | false | Column)[] }) {
  return (
    <thead>
      <tr>
        {columns
          .filter((column) => column !== false)
          .map((column) => (typeof column === 'string' ? { label: column } : column))
          .map(({ label, class: look, title }, index) => (
            <th key={index} scope="col" class={look} title={title}>
              {label}
            </th>
          ))}
      </tr>
    </thead>
  );
}
