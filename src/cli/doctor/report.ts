import { largestOf } from '../../util/extremes.ts';
import { alignColumns } from '../../util/text-table.ts';
import { gigabytes, type Needs, type StepTime } from './needs.ts';
import type { Rates, StepSize } from './probe.ts';
import type { Check } from './surroundings.ts';

/** Facts about this machine. Sizes are in bytes. */
export interface MachineReport {
  node: string;
  platform: string;
  cores: number;
  /** Threads of the engine. */
  threads: number;
  runtime: string;
  selfTest: 'passed';
  /** Memory of the machine, and how much of it this process may use. */
  memoryBytes: number;
  usableBytes: number;
  /** What training a checkpoint may use beside its weights. */
  trainingBytes: number;
}

/** Facts about a base model. `null`: a tiny model has no such fact, or it was not measured. */
export interface ModelReport {
  id: string;
  parameters: number;
  contextLength: number;
  vocabularySize: number;
  /** What was read from a checkpoint's folder. */
  found: { family: string; folder: string; layers: number; chat: string } | null;
  memory: (Omit<Needs, 'refusals'> & { batch: number }) | null;
  /** Tokens per second. */
  rates: Rates | null;
  stepSeconds: StepTime | null;
  /** What a limit would refuse. */
  refusals: string[];
}

type Row = [name: string, value: string];

/** The report for people: a table for the machine and one for each model. */
export function reportText({
  machine,
  checks,
  step,
  models,
}: {
  machine: MachineReport;
  checks: readonly Check[];
  step: StepSize;
  models: readonly ModelReport[];
}): string {
  const tables = [
    ['This machine', [...machineRows(machine), ...checks.map(checkRow)]] as const,
    ...models.map((model) => [model.id, modelRows(model, machine, step)] as const),
  ];
  const width = largestOf(tables.flatMap(([, rows]) => rows.map(([name]) => name.length)));
  return tables
    .map(([title, rows]) => {
      const aligned = alignColumns(rows.map(([name, value]) => ['', name.padEnd(width), value]));
      return `${[title, ...aligned].join('\n')}\n`;
    })
    .join('\n');
}

const checkRow = ({ name, isWell, text }: Check): Row => [name, isWell ? text : `NOT WELL: ${text}`];

function machineRows(machine: MachineReport): Row[] {
  const { node, platform, cores, threads, runtime, selfTest, memoryBytes, usableBytes, trainingBytes } =
    machine;
  const whole =
    usableBytes < memoryBytes ? `, the limit of its container (of ${gigabytes(memoryBytes)})` : '';
  return [
    ['Node', `${node} on ${platform}`],
    ['cores', `${cores}; the engine uses ${threads}`],
    ['runtime', runtime],
    ['self-test', `${selfTest}: the graphs compute what float64 does`],
    ['memory', `${gigabytes(usableBytes)}${whole}; training may use ${gigabytes(trainingBytes)} of it`],
  ];
}

function modelRows(
  { parameters, contextLength, vocabularySize, found, memory, rates, stepSeconds, refusals }: ModelReport,
  { trainingBytes }: MachineReport,
  { rollouts, group, sampled, sequence }: StepSize,
): Row[] {
  const size = `${(parameters / 1e6).toFixed(1)} million parameters`;
  const rows: Row[] = [];
  if (found) rows.push(['folder', found.folder], ['chat', found.chat]);
  const layers = found ? `${found.family}, ${found.layers} layers, ` : '';
  rows.push([
    'model',
    `${layers}${size}, ${vocabularySize} tokens in the vocabulary, ${contextLength} of context`,
  ]);
  if (memory) {
    const { weightBytes, packedBytes, keyValueBytes, prefixCacheBytes, trainedBytes, processBytes } = memory;
    const { totalBytes, trainedTogether, batch } = memory;
    const sequences = trainedTogether === 1 ? 'one sequence' : `${trainedTogether} sequences`;
    rows.push(
      ['memory: weights', gigabytes(weightBytes)],
      ['memory: packed weights', `${gigabytes(packedBytes)}, a copy for sampling on the CPU`],
      ['memory: keys and values', `${gigabytes(keyValueBytes)} for ${batch} sequences of ${sequence} tokens`],
      [
        'memory: ended replies',
        `${gigabytes(prefixCacheBytes)} at most, kept for prompts that begin with them`,
      ],
      [
        'memory: training',
        memory.trainingBytes === null
          ? `more than the ${gigabytes(trainingBytes)} that are allowed`
          : `${gigabytes(memory.trainingBytes)} for ${sequences} of ${sequence} tokens at once`,
      ],
      ['memory: what is trained', `${gigabytes(trainedBytes)} with its gradient and Adam's state`],
      ['memory: the process', gigabytes(processBytes)],
      ['memory: all', gigabytes(totalBytes)],
    );
  }
  if (rates) {
    const perSecond = (rate: number) => `${rate < 10 ? rate.toFixed(1) : Math.round(rate)} tokens/s`;
    rows.push(
      ['speed: prompts', perSecond(rates.prompt)],
      ['speed: one reply', perSecond(rates.oneReply)],
      ['speed: eight replies', `${perSecond(rates.eightReplies)} together`],
      [`speed: ${Math.min(rollouts, 64)} replies`, `${perSecond(rates.allReplies)} together`],
      ['speed: training', rates.training === null ? 'not measured' : perSecond(rates.training)],
    );
  } else rows.push(['speed', 'not measured, because the weights do not fit']);
  if (stepSeconds) {
    const { prompts, sampling, training, total } = stepSeconds;
    const of = `${rollouts} rollouts in groups of ${group}, ${sampled} of ${sequence} tokens sampled`;
    const parts = `prompts ${duration(prompts)}, sampling ${duration(sampling)}`;
    if (training !== null && total !== null)
      rows.push(
        ['a training step', `about ${duration(total)} for ${of}`],
        ['', `${parts}, training ${duration(training)}`],
      );
    else rows.push(['a training step', `refused; without training ${parts}, for ${of}`]);
  }
  if (refusals.length === 0) rows.push(['limits', 'nothing would be refused']);
  else for (const refusal of refusals) rows.push(['refused', refusal]);
  return rows;
}

const duration = (seconds: number) =>
  seconds < 60
    ? `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`
    : `${(seconds / 60).toFixed(1)} min`;
