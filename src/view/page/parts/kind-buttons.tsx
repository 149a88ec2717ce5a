/** A button for each kind of row, with how many there are; the chosen one pressed again shows all. */
export function KindButtons<Kind extends string>({
  kinds,
  chosen,
  countOf,
  onChoose,
}: {
  kinds: Readonly<Record<Kind, string>>;
  chosen: Kind | null;
  countOf: (kind: Kind) => number;
  onChoose: (kind: Kind | null) => void;
}) {
  return (Object.keys(kinds) as Kind[]).map((kind) => {
    const count = countOf(kind);
    return (
      <button
        key={kind}
        type="button"
        class="button"
        aria-pressed={kind === chosen}
        disabled={count === 0}
        onClick={() => onChoose(kind === chosen ? null : kind)}
      >
        {kinds[kind]} <span class="muted">{count}</span>
      </button>
    );
  });
}
