import { useSignal } from '@preact/signals';
import type { RunDetail } from '../../api.ts';
import { differencesOf } from '../../differences.ts';
import { useApi } from '../api-client.ts';
import { Chart, LineSwatch } from '../parts/chart.tsx';
import { type Curve, curvesOf, valuesOf } from '../parts/curves.ts';
import type { Line, Tone } from '../parts/plot.ts';
import { TableHead } from '../parts/table-head.tsx';
import { addressOf, setQuery } from '../router.ts';

const tones: readonly Tone[] = ['series-1', 'series-2', 'series-3', 'series-4'];

/** Two to four runs: their curves over each other, and what differs in their configurations. */
export function Overlay({ ids }: { ids: readonly string[] }) {
  // Always four, because hooks are counted.
  const loaded = tones.map((_, index) => useApi<RunDetail>(runPath(ids[index])));
  const cursor = useSignal<number | null>(null);
  const runs = loaded.flatMap(({ data }) => (data ? [data] : []));
  const problem = loaded.find(({ error }) => error)?.error;
  if (runs.length < 2) return problem ? <p role="alert">{problem}</p> : null;
  const x = [...new Set(runs.flatMap(({ reports }) => reports.map(({ step }) => step)))].sort(
    (a, b) => a - b,
  );
  const curves = sharedCurves(runs);
  return (
    <section class="overlay panel" aria-label="Comparison">
      <div class="panel-head">
        <div class="legend">
          {runs.map(({ id, name }, index) => (
            <span key={id}>
              <LineSwatch tone={tones[index] ?? 'muted'} dashed={isDashed(index)} />
              <a href={addressOf(['runs', id])}>{name}</a>
            </span>
          ))}
        </div>
        <button type="button" class="button" onClick={() => setQuery({ runs: null })}>
          Clear
        </button>
      </div>
      <div class="charts inner">
        {curves.map((curve) => (
          <Chart
            key={curve.id}
            title={<span title={curve.meaning}>{curve.title}</span>}
            label={`${curve.title} of ${runs.map(({ name }) => name).join(', ')}`}
            x={x}
            lines={runs.map((run, index) => lineOf(run, index, curve, x))}
            cursor={cursor}
            hasLegend={false}
            range={curve.range}
            {...(curve.format ? { format: curve.format } : {})}
          />
        ))}
      </div>
      <Differences runs={runs} />
    </section>
  );
}

const runPath = (id: string | undefined) => (id === undefined ? null : `runs/${encodeURIComponent(id)}`);

/** Every second line is dashed, to be told apart without colours. */
const isDashed = (index: number) => index % 2 === 1;

/** The curves with one line that every run has; of those with two, the first. */
function sharedCurves(runs: readonly RunDetail[]): Curve[] {
  const [first, ...others] = runs.map(({ reports }) => curvesOf(reports).main);
  return (first ?? []).filter(
    ({ id, lines }) => lines.length <= 2 && others.every((curves) => curves.some((curve) => curve.id === id)),
  );
}

function lineOf(run: RunDetail, index: number, curve: Curve, x: readonly number[]): Line {
  const own = curvesOf(run.reports).main.find(({ id }) => id === curve.id) ?? curve;
  const values = valuesOf(run.reports, own, 0);
  const byStep = new Map(run.reports.map(({ step }, at) => [step, values[at] ?? null]));
  return {
    label: run.name,
    values: x.map((step) => byStep.get(step) ?? null),
    tone: tones[index] ?? 'muted',
    dashed: isDashed(index),
  };
}

function Differences({ runs }: { runs: readonly RunDetail[] }) {
  const differences = differencesOf(runs.map(({ config }) => config));
  if (differences.length === 0)
    return <p class="panel-head muted">The configurations of these runs do not differ.</p>;
  return (
    <div class="table-scroll">
      <table class="differences">
        <caption class="hidden-text">What differs in the configurations</caption>
        <TableHead
          columns={[
            'Differs',
            ...runs.map(({ name }, index) => ({
              label: (
                <>
                  <LineSwatch tone={tones[index] ?? 'muted'} dashed={isDashed(index)} /> {name}
                </>
              ),
            })),
          ]}
        />
        <tbody>
          {differences.map(({ path, values }) => (
            <tr key={path}>
              <th scope="row">{path}</th>
              {values.map((value, index) => (
                <td key={index}>{value ?? <span class="muted">not set</span>}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
