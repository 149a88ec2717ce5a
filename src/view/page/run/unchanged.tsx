import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import type { StepReport } from '../../../progress/report.ts';
import { type Curve, valuesOf } from '../parts/curves.ts';
import { formatNumber } from '../parts/format.ts';

/** The curves that never moved, in one line; their charts open below it. */
export function Unchanged({
  reports,
  curves,
  children,
}: {
  reports: readonly StepReport[];
  curves: readonly Curve[];
  /** Their charts. */
  children: ComponentChildren;
}) {
  const [isOpen, setOpen] = useState(false);
  return (
    <details class="panel unchanged" onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>
        Unchanged{' '}
        <span class="muted">
          {curves.map((curve, at) => (
            <span key={curve.id} title={curve.meaning}>
              {at > 0 && ' · '}
              {curve.title}{' '}
              <b>{(curve.format ?? formatNumber)(valuesOf(reports, curve, 0)[0] ?? Number.NaN)}</b>
            </span>
          ))}
        </span>
      </summary>
      {isOpen && <div class="charts inner">{children}</div>}
    </details>
  );
}
