// Measures what our parts cost, checks the simulation against real runs, and carries it to many GPUs. Prints tables;
// `--write` also puts them into docs/sizing.md. It takes about three minutes.

import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { root } from '../../support/programs.ts';
import { machine, whole } from '../table.ts';
import { checkedRuns, checkRun, costsOf } from './check.ts';
import { startTimedService } from './real-run.ts';
import { scale, sizes } from './scale.ts';
import { isNoise, measureUnits, measureWaiting } from './units.ts';

const lines: string[] = [];
const add = (line = '') => {
  lines.push(line);
  console.log(line);
};
const row = (...cells: (string | number)[]) => add(`| ${cells.join(' | ')} |`);
const head = (...cells: string[]) => {
  row(...cells);
  row(...cells.map(() => '---'));
};
/** Two or three digits: the others are noise. */
const figure = (value: number) =>
  Math.abs(value) >= 100 ? whole(Number(value.toPrecision(3))) : String(Number(value.toPrecision(2)));
const percent = (share: number) => `${Math.round(share * 100)}%`;
const seconds = (ms: number) => (ms / 1000).toFixed(ms < 20_000 ? 2 : 0);

await using service = await startTimedService(Object.values(checkedRuns)[0]!);
const units = await measureUnits(service);
const waiting = await measureWaiting(service, 4000);
const costs = costsOf(units);

add(`${new Date().toISOString().slice(0, 10)}, ${machine}.`);
add();
add('### Unit costs');
add();
head('of a step of a run', 'a sampled token', 'a call', 'a rollout', 'a group', 'the step');
const columns = ['token', 'call', 'rollout', 'group', 'step'] as const;
for (const [name, unit] of Object.entries(units))
  row(name, ...columns.map((column) => (isNoise(name, unit, column) ? '–' : figure(unit[column]))));
add();
add(
  `A rollout that waits for its first call takes ${figure(waiting.harness / 1024)} KiB of heap in the harness and ` +
    `${figure(waiting.service / 1024)} KiB in the service (4,000 waiting), one that has not begun ` +
    `${figure(waiting.queued / 1024)} KiB in the harness.`,
);
add();
add('### The simulation beside real runs');
add();
head(
  ...['run', 'seconds a step: simulated', 'measured', 'difference'],
  ...['in flight: simulated', 'measured', 'staleness: simulated', 'measured'],
);
for (const [name, run] of Object.entries(checkedRuns)) {
  const { predicted, measured } = await checkRun(service, run, costs);
  row(
    ...[name, seconds(predicted.stepMs), seconds(measured.stepMs)],
    percent(measured.stepMs / predicted.stepMs - 1),
    ...[predicted.inFlight.toFixed(1), measured.inFlight.toFixed(1)],
    ...[predicted.staleness.toFixed(2), measured.staleness.toFixed(2)],
  );
}
add();
add('### Carried to 10,000 rollouts in flight');
add();
const scaled = sizes.map((size) => scale(size, { units, costs, waiting }));
head(
  ...['in flight at most', 'mean', 'GPUs', 'sampled tokens a second', 'seconds a step without our parts'],
  ...['with one process each', 'with', 'seconds a step'],
);
for (const { size, free, single, enough } of scaled)
  row(
    ...[whole(size.inFlight), whole(free.inFlight), size.gpus, figure((free.tokens / free.totalMs) * 1000)],
    ...[seconds(free.stepMs), seconds(single.stepMs)],
    ...[`${enough.harness} of the harness, ${enough.service} of the service`, seconds(enough.figures.stepMs)],
  );
add();
add('What the GPUs of each size would ask of our parts, and the share of what there is:');
add();
head('part', 'there is', ...sizes.map(({ inFlight, gpus }) => `${whole(inFlight)} in flight, ${gpus} GPUs`));
scaled[0]?.parts.forEach(({ part, limit, unit }, index) => {
  const demands = scaled.map(({ parts }) => parts[index]?.demand ?? 0);
  row(
    ...[part, `${whole(limit)} ${unit}`],
    ...demands.map((demand) => `${figure(demand)} (${percent(demand / limit)})`),
  );
});

if (process.argv.includes('--write')) {
  const file = join(root, 'docs/sizing.md');
  const page = await readFile(file, 'utf8');
  const [begin, end] = ['<!-- begin: npm run bench:sizing -- --write -->\n', '<!-- end -->'];
  const [before, rest] = page.split(begin);
  const after = rest?.slice(rest.indexOf(end));
  if (after === undefined) throw new Error(`${file} has no lines "${begin.trim()}" and "${end}".`);
  await writeFile(file, `${before}${begin}\n${lines.join('\n')}\n\n${after}`);
}
