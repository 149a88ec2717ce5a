import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { withoutStep } from '../contract/index.ts';
import { optimizationFile } from '../optimization/index.ts';
import type { StepReport } from '../progress/index.ts';
import { isRunActive, type RunReader, readRun } from '../training/index.ts';
import { messageOf } from '../util/error.ts';
import { largestOf } from '../util/extremes.ts';
import { isObject } from '../util/json.ts';
import { meanOf, sumOf } from '../util/sums.ts';
import type { RunRow, RunStatus } from './api.ts';
import type { FoundRun } from './find-runs.ts';
import { optimizationOf, rowOf } from './optimization.ts';

const ends: readonly RunStatus[] = ['finished', 'stopped', 'early_stop', 'budget', 'failed'];

/** Points of the small curve beside a run. */
const maxPoints = 60;

/** The row of a run in the list of runs. A run that cannot be read is `broken`, with the reason. */
export async function readRow(run: FoundRun): Promise<RunRow> {
  try {
    return await toRow(run, await readRun(run.folder));
  } catch (error) {
    return {
      ...emptyRow(run),
      changed: await changedAt(run.folder),
      status: 'broken',
      problem: messageOf(error),
    };
  }
}

async function toRow(run: FoundRun, reader: RunReader): Promise<RunRow> {
  const [config, summary, reports] = [await reader.config(), await reader.summary(), await reader.reports()];
  const last = reports.at(-1);
  const { started, steps, model }: Record<string, unknown> = config ?? {};
  const costs = reports.flatMap(({ usage }) => usage.cost ?? []);
  const policy =
    typeof summary?.model === 'string'
      ? summary.model
      : (last?.policy ?? (typeof model === 'string' ? model : null));
  const environment = config?.environment ?? null;
  const optimization = config && (await optimizationOf(run.folder, config));
  const optimized = optimization ? rowOf(optimization, config) : {};
  return {
    ...emptyRow(run),
    ...endOf(run.folder, summary, optimized.step ?? reports.length),
    title: titleOf(run.name, { environment, model: policy }),
    model: policy,
    environment,
    step: reports.length,
    steps: last?.steps ?? (typeof steps === 'number' ? steps : 0),
    reward: last?.reward ?? null,
    success: last?.success ?? null,
    rewards: meansOf(reports, maxPoints),
    cost: costs.length > 0 ? sumOf(costs) : null,
    tokens: sumOf(reports.map(({ usage }) => usage.promptTokens + usage.sampledTokens)),
    started: typeof started === 'string' ? started : null,
    changed: await changedAt(run.folder),
    seconds: typeof summary?.seconds === 'number' ? summary.seconds : null,
    ...optimized,
  };
}

/** Names of folders that were named after the time at which their run began. */
const timedName = /(^|\/)\d{4}-\d{2}-\d{2}T\d{2}-\d{2}-\d{2}[^/]*$/;

function titleOf(
  name: string,
  { environment, model }: { environment: string | null; model: string | null },
): string {
  const parts = [environment, model && withoutStep(model)].filter(Boolean);
  return timedName.test(name) && parts.length > 0 ? parts.join(', ') : name;
}

const emptyRow = ({ id, name, folder }: FoundRun): RunRow => ({
  id,
  name,
  title: name,
  folder,
  status: 'crashed',
  because: null,
  model: null,
  environment: null,
  step: 0,
  steps: 0,
  reward: null,
  success: null,
  rewards: [],
  cost: null,
  tokens: 0,
  started: null,
  changed: new Date(0).toISOString(),
  seconds: null,
  problem: null,
});

/** A summary with fewer steps than there are is from before the run was resumed. */
function endOf(
  folder: string,
  summary: Record<string, unknown> | null,
  steps: number,
): Pick<RunRow, 'status' | 'because'> {
  if (isRunActive(folder)) return { status: 'running', because: null };
  const status = ends.find((end) => end === summary?.reason);
  if (!status || summary?.steps !== steps) return { status: 'crashed', because: null };
  const error = isObject(summary.error) ? summary.error.message : undefined;
  const because = [summary.because, error].find((text) => typeof text === 'string');
  return { status, because: typeof because === 'string' ? because : null };
}

/** Mean rewards of stretches of steps, at most `most`. */
function meansOf(reports: readonly StepReport[], most: number): number[] {
  const size = Math.max(1, Math.ceil(reports.length / most));
  return Array.from({ length: Math.ceil(reports.length / size) }, (_, at) => {
    const stretch = reports.slice(at * size, (at + 1) * size);
    return meanOf(stretch.map(({ reward }) => reward));
  });
}

/** When a file of the run last changed, ISO 8601. */
async function changedAt(folder: string): Promise<string> {
  const files = ['', 'config.json', 'metrics.jsonl', 'events.jsonl', optimizationFile, 'summary.json'];
  const times = await Promise.all(
    files.map(async (file) => (await stat(join(folder, file)).catch(() => null))?.mtimeMs ?? 0),
  );
  return new Date(largestOf(times)).toISOString();
}
