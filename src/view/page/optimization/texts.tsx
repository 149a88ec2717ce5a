import { useMemo } from 'preact/hooks';
import type { CandidateRow } from '../../api.ts';
import { ModelText, Runs } from '../rollout/model-text.tsx';
import { setQuery } from '../router.ts';
import { changesOf, type Piece } from './changes.ts';

/** The texts of two candidates side by side, with what differs. */
export function Texts({
  candidates,
  chosen,
  beside,
}: {
  candidates: readonly CandidateRow[];
  chosen: CandidateRow;
  beside: CandidateRow;
}) {
  const names = Object.keys(chosen.texts);
  const same = names.filter((name) => chosen.texts[name] === beside.texts[name]);
  return (
    <section class="panel" aria-label="Texts">
      <div class="panel-head">
        <h2>Texts of candidate {chosen.number}</h2>
        <label>
          <span class="muted">beside candidate </span>
          <select
            class="field"
            value={String(beside.number)}
            onChange={({ currentTarget }) => setQuery({ beside: currentTarget.value }, { replace: true })}
          >
            {candidates.map(({ number }) => (
              <option key={number} value={String(number)}>
                {number}
              </option>
            ))}
          </select>
        </label>
      </div>
      {names
        .filter((name) => !same.includes(name))
        .map((name) => (
          <Both key={name} name={name} first={beside.texts[name] ?? ''} second={chosen.texts[name] ?? ''} />
        ))}
      {same.map((name) => (
        <details key={name} class="same-text" open={same.length === names.length}>
          <summary>
            {name} <span class="muted">the same in both</span>
          </summary>
          <div class="text-side">
            <ModelText text={chosen.texts[name] ?? ''} />
          </div>
        </details>
      ))}
    </section>
  );
}

function Both({ name, first, second }: { name: string; first: string; second: string }) {
  const pieces = useMemo(() => changesOf(first, second), [first, second]);
  return (
    <div class="both-texts">
      <h3>{name}</h3>
      <Side pieces={pieces} of="first" label={`${name} before`} />
      <Side pieces={pieces} of="second" label={`${name} after`} />
    </div>
  );
}

function Side({ pieces, of, label }: { pieces: readonly Piece[]; of: 'first' | 'second'; label: string }) {
  const Mark = of === 'first' ? 'del' : 'ins';
  return (
    <section class="model-text text-side" aria-label={label} dir="auto">
      {pieces
        .filter((piece) => piece.in === 'both' || piece.in === of)
        .map((piece, at) =>
          piece.in === 'both' ? (
            <Runs key={at} text={piece.text} />
          ) : (
            <Mark key={at}>
              <Runs text={piece.text} />
            </Mark>
          ),
        )}
    </section>
  );
}
