/** A number with its name, and what it is of: `['Step', '3', 'of 20']`. */
export type Figure = readonly [name: string, value: string, note?: string];

/** The numbers that matter most of a panel, beside each other. */
export function Figures({ figures }: { figures: readonly Figure[] }) {
  return (
    <dl class="figures">
      {figures.map(([name, value, note]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>
            {value} {note && <small>{note}</small>}
          </dd>
        </div>
      ))}
    </dl>
  );
}
