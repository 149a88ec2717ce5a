import { useState } from 'preact/hooks';
import './model-text.css';
import { cut, visibleRuns } from '../parts/visible-text.ts';

/** Characters that show at first, and with each press of the button: about twenty screens. */
const firstPart = 4_000;
const nextPart = 40_000;

interface ModelTextProps {
  text: string;
  /** Index of the first character that differs in another conversation; the text from there is marked. Absent for none. */
  partsAt?: number | undefined;
  /** Characters that show before the button. */
  limit?: number;
}

/**
 * Text that a model, a tool or a user wrote: as text, never markup; what would be invisible or move its surroundings has
 * a stand-in. A long text shows its beginning first.
 */
export function ModelText({ text, partsAt, limit = firstPart }: ModelTextProps) {
  const [more, setMore] = useState(0);
  const wanted = Math.max(limit, partsAt === undefined ? 0 : partsAt + 500) + more;
  // A button for a few characters would be longer than they are.
  const shown = text.length <= wanted + 200 ? text : cut(text, wanted);
  const left = text.length - shown.length;
  return (
    <>
      <div class="model-text" dir="auto">
        {partsAt === undefined || partsAt > shown.length ? (
          <Runs text={shown} />
        ) : (
          <>
            <span class="shared-text">
              <Runs text={shown.slice(0, partsAt)} />
            </span>
            <mark class="parting">
              <span class="hidden-text">From here the rollouts differ</span>
            </mark>
            <Runs text={shown.slice(partsAt)} />
          </>
        )}
      </div>
      {left > 0 && (
        <button type="button" class="button more-text" onClick={() => setMore(more + nextPart)}>
          {left <= nextPart ? 'Show the rest' : 'Show more'}: {left.toLocaleString('en')} characters left
        </button>
      )}
    </>
  );
}

/** Text with stand-ins for what would be invisible, for the inside of an element of class `model-text`. */
export function Runs({ text }: { text: string }) {
  return (
    <>
      {visibleRuns(text).map((run, at) =>
        run.kind === 'text' ? (
          run.text
        ) : (
          <span key={at} class="stand-in" title={run.title}>
            {run.text}
          </span>
        ),
      )}
    </>
  );
}
