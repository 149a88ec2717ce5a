import { useSignal } from '@preact/signals';
import { useMemo } from 'preact/hooks';
import type { RunDetail } from '../../api.ts';
import { useApi } from '../api-client.ts';
import { Optimization } from '../optimization/optimization.tsx';
import { Chart } from '../parts/chart.tsx';
import { type Curve, curvesOf, isUnchanged, valuesOf } from '../parts/curves.ts';
import { type Figure, Figures } from '../parts/figures.tsx';
import {
  formatAge,
  formatCost,
  formatCount,
  formatNumber,
  formatSeconds,
  formatShare,
} from '../parts/format.ts';
import { useKeys } from '../parts/keys.ts';
import type { Interval, Tone } from '../parts/plot.ts';
import { Data, Nothing } from '../parts/states.tsx';
import { StatusTag } from '../parts/status.tsx';
import { subtitleOf } from '../parts/titles.ts';
import { addressOf, goTo, type PanelProps, setQuery } from '../router.ts';
import { Alarms } from './alarms.tsx';
import { Config } from './config.tsx';
import { Unchanged } from './unchanged.tsx';
import { Validations } from './validations.tsx';
import './run.css';

/** A run: its figures, alarms and curves; a click on a step opens it. */
export function Run({ params, query }: PanelProps<'run'>) {
  const loaded = useApi<RunDetail>(`runs/${encodeURIComponent(params.run)}`);
  return <Data of={loaded}>{(run) => <RunPanel run={run} query={query} />}</Data>;
}

function RunPanel({ run, query }: { run: RunDetail; query: PanelProps['query'] }) {
  const isFull = query.curves === 'all';
  const cursor = useSignal<number | null>(null);
  const { reports } = run;
  const steps = useMemo(() => reports.map(({ step }) => step), [reports]);
  const { main, more } = useMemo(() => curvesOf(reports), [reports]);
  const unchanged = useMemo(() => main.filter((curve) => isQuiet(run, curve)), [main, run]);
  const moving = main.filter((curve) => !unchanged.includes(curve));
  const open = (step: number) => goTo(addressOf(['runs', run.id, 'steps', step]));
  const drawn = (curve: (typeof main)[number]) => (
    <RunCurve key={curve.id} run={run} curve={curve} steps={steps} cursor={cursor} onPick={open} />
  );
  const move = (by: number) => {
    const at = cursor.peek() === null ? steps.length : steps.indexOf(cursor.peek() ?? 0);
    cursor.value = steps[Math.min(Math.max(at + by, 0), steps.length - 1)] ?? null;
  };
  useKeys([
    { key: 'j', does: 'Next step', run: () => move(1) },
    { key: 'k', does: 'Previous step', run: () => move(-1) },
    { key: 'ArrowRight', does: 'Next step', run: () => move(1) },
    { key: 'ArrowLeft', does: 'Previous step', run: () => move(-1) },
    { key: 'Enter', does: 'Open the step', run: () => open(cursor.peek() ?? steps.at(-1) ?? 0) },
  ]);
  return (
    <>
      <Head run={run} />
      {run.alarms.length > 0 && <Alarms run={run} />}
      {run.optimization ? (
        <Optimization run={run} optimization={run.optimization} query={query} />
      ) : reports.length === 0 ? (
        <div class="panel">
          <Nothing title="No step has ended yet">
            <p>Curves show here after the first step.</p>
          </Nothing>
        </div>
      ) : (
        <>
          <div class="charts">{[...moving, ...(isFull ? more : [])].map(drawn)}</div>
          {unchanged.length > 0 && (
            <Unchanged reports={reports} curves={unchanged}>
              {unchanged.map(drawn)}
            </Unchanged>
          )}
          <div class="buttons">
            {more.length > 0 && (
              <button
                type="button"
                class="button"
                aria-pressed={isFull}
                onClick={() => setQuery({ curves: isFull ? null : 'all' })}
              >
                Curves of the optimizer
              </button>
            )}
            <OpenStep steps={steps} onOpen={open} />
          </div>
        </>
      )}
      {run.evaluations.length > 0 && <Validations run={run} />}
      <Config config={run.config} />
    </>
  );
}

/** What never moved, and what no alarm is about; a reward or success is worth its chart all the same. */
const isQuiet = ({ reports, alarms }: RunDetail, curve: Curve): boolean =>
  curve.validation === undefined &&
  isUnchanged(reports, curve) &&
  !alarms.some(({ kind }) => curve.alarms?.includes(kind));

const tones: readonly Tone[] = ['series-1', 'series-2', 'series-3', 'series-4'];

interface RunCurveProps {
  run: RunDetail;
  curve: Curve;
  steps: readonly number[];
  cursor: { value: number | null; peek(): number | null } & Parameters<typeof Chart>[0]['cursor'];
  onPick: (step: number) => void;
}

function RunCurve({ run: { reports, alarms, evaluations }, curve, steps, cursor, onPick }: RunCurveProps) {
  const lines = useMemo(
    () =>
      curve.lines.map(({ label, dashed }, index) => ({
        label,
        values: valuesOf(reports, curve, index),
        tone: dashed ? ('series-1' as const) : (tones[index] ?? 'muted'),
        ...(dashed ? { dashed } : {}),
      })),
    [reports, curve],
  );
  const marks = useMemo(
    () =>
      alarms
        .filter(({ kind }) => curve.alarms?.includes(kind))
        .map(({ step, message }) => ({ x: step, label: message })),
    [alarms, curve],
  );
  const intervals = useMemo(() => intervalsOf(evaluations, curve.validation), [evaluations, curve]);
  const last = lines[0]?.values.findLast((value) => value !== null);
  return (
    <Chart
      title={<span title={curve.meaning}>{curve.title}</span>}
      label={`${curve.title} over ${steps.length} steps, last ${(curve.format ?? formatNumber)(last ?? Number.NaN)}. ${curve.meaning}`}
      x={steps}
      lines={lines}
      marks={marks}
      intervals={intervals}
      cursor={cursor}
      onPick={onPick}
      range={curve.range}
      {...(curve.format ? { format: curve.format } : {})}
    />
  );
}

/** The validations as points over the step whose rollouts sampled from the same checkpoint. */
function intervalsOf(evaluations: RunDetail['evaluations'], score: Curve['validation']): Interval[] {
  if (!score) return [];
  return evaluations.flatMap((evaluation) => {
    const y = evaluation[score];
    const [low, high] = (score === 'reward' ? evaluation.rewardInterval : evaluation.successInterval) ?? [
      null,
      null,
    ];
    return y === null ? [] : [{ x: evaluation.step, y, low, high, label: 'Validation' }];
  });
}

function Head({ run }: { run: RunDetail }) {
  const figures: readonly Figure[] = [
    [run.optimization ? 'Iteration' : 'Step', String(run.step), `of ${run.steps}`],
    ['Reward', formatNumber(run.reward)],
    ...(run.success === null ? [] : [['Success', formatShare(run.success)] as const]),
    ['Tokens', formatCount(run.tokens)],
    ...(run.optimization ? [['Rollouts', formatCount(run.optimization.spent.rollouts)] as const] : []),
    ...(run.cost === null ? [] : [['Cost', formatCost(run.cost)] as const]),
    ['Time', formatSeconds(run.seconds)],
  ];
  return (
    <>
      <div class="heading">
        <h1>{run.title}</h1>
        <StatusTag run={run} />
        <span class="muted">{[...subtitleOf(run), `changed ${formatAge(run.changed)}`].join(' · ')}</span>
      </div>
      <Figures figures={figures} />
    </>
  );
}

/** Opens a step by its number, for those who cannot point at a curve. */
function OpenStep({ steps, onOpen }: { steps: readonly number[]; onOpen: (step: number) => void }) {
  return (
    <form
      class="step-form"
      onSubmit={(event) => {
        event.preventDefault();
        onOpen(Number(new FormData(event.currentTarget).get('step')));
      }}
    >
      <label>
        <span class="muted">Step </span>
        <input
          class="field"
          name="step"
          type="number"
          min={steps[0]}
          max={steps.at(-1)}
          defaultValue={String(steps.at(-1))}
          required
        />
      </label>
      <button type="submit" class="button">
        Open
      </button>
    </form>
  );
}
