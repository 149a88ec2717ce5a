import { useEffect, useMemo, useRef } from 'preact/hooks';
import type { TurnView } from '../../api.ts';
import { counted, formatNumber } from '../parts/format.ts';
import { type Parting, partingOf } from '../rollout/parting.ts';
import { Turn, Turns } from '../rollout/turn.tsx';
import './group.css';

/** A conversation beside others. */
export interface Column {
  key: string | number;
  title: string;
  /** Address of its own panel. */
  href: string;
  reward: number | null;
  /** What stands under the title, such as why it failed. */
  note?: string | undefined;
  turns: readonly TurnView[];
}

const where: Record<Parting['field'], string> = {
  role: 'who speaks',
  reasoning: 'the reasoning',
  text: 'the text',
  tools: 'the calls of tools',
  end: 'one of them ends',
};

/** Conversations side by side, as many as fit: what they share stands once above, the place where they part is marked. */
export function Columns({ columns, cursor }: { columns: readonly Column[]; cursor?: number | undefined }) {
  const parting = useMemo(() => partingOf(columns.map(({ turns }) => turns)), [columns]);
  const shared = columns[0]?.turns.slice(0, parting?.turns ?? columns[0].turns.length) ?? [];
  const isAlone = columns.length === 1;
  return (
    <>
      {shared.length > 0 && (
        <details class="panel shared" open={shared.length <= 4}>
          <summary class="panel-head">
            <h2>
              {isAlone ? 'The conversation' : parting ? 'The same in all' : 'All conversations are the same'}
            </h2>
            <span class="muted">{counted(shared.length, 'turn')}</span>
          </summary>
          <Turns label="The beginning that all share">
            {shared.map((turn, at) => (
              <Turn key={at} turn={turn} />
            ))}
          </Turns>
        </details>
      )}
      {parting && (
        <>
          <p class="parting-note">
            <span class="parting-sign" aria-hidden="true" />
            They part at turn {parting.turns + 1}: {where[parting.field]}
            {parting.characters > 0 &&
              ['text', 'reasoning'].includes(parting.field) &&
              `, after ${parting.characters.toLocaleString('en')} characters`}
            .
          </p>
          {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls sideways must be reached by the keyboard. */}
          <section class="columns" aria-label="Rollouts side by side" tabIndex={0}>
            {columns.map((column, at) => (
              <ColumnView key={column.key} column={column} parting={parting} isCurrent={at === cursor} />
            ))}
          </section>
        </>
      )}
    </>
  );
}

function ColumnView({
  column: { title, href, reward, note, turns },
  parting,
  isCurrent,
}: {
  column: Column;
  parting: Parting;
  isCurrent: boolean;
}) {
  const column = useRef<HTMLElement>(null);
  useEffect(() => {
    const { current } = column;
    if (isCurrent && current) current.parentElement?.scrollTo({ left: current.offsetLeft - 2 });
  }, [isCurrent]);
  return (
    <section ref={column} class="panel column" aria-label={title} data-current={isCurrent ? '' : undefined}>
      <header class="column-head">
        <a href={href}>{title}</a>
        {note ? <span class="tag warn">{note}</span> : <b>{formatNumber(reward)}</b>}
      </header>
      <Turns label={`${title}, from turn ${parting.turns + 1}`}>
        {turns.slice(parting.turns).map((turn, at) => (
          <Turn key={at} turn={turn} parting={at === 0 ? parting : undefined} />
        ))}
        {turns.length <= parting.turns && <li class="turn muted">It ended before.</li>}
      </Turns>
    </section>
  );
}
