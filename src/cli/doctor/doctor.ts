import { availableParallelism, totalmem } from 'node:os';
import { Command, Option } from 'commander';
import { MartingaleError, printableLines } from '../../contract/index.ts';
import type { CheckpointOptions, EmbeddedEngineOptions } from '../../engines/embedded/index.ts';
import { counted } from '../../progress/index.ts';
import {
  addCheckpointFlags,
  type CheckpointFlags,
  checkpointsOf,
  describeFormat,
  showFetch,
} from '../checkpoint-flags.ts';
import { dataFlag, serviceUrl, threadsFlag, wholeNumber } from '../flags.ts';
import { needsOf, stepTimeOf } from './needs.ts';
import { probe, type StepSize } from './probe.ts';
import { type MachineReport, type ModelReport, reportText } from './report.ts';
import { type CheckOptions, checkSurroundings } from './surroundings.ts';

interface DoctorOptions extends CheckpointFlags, StepSize, Omit<CheckOptions, 'env'> {
  threads?: number;
  batch?: number;
  json?: boolean;
  repair?: boolean;
}

/** @throws MartingaleError if the machine or a checkpoint cannot be used at all, as `serve` does */
async function doctor({ threads, json, repair, ...rest }: DoctorOptions): Promise<void> {
  if (repair) return await repairData(rest.data);
  if (rest.sampled >= rest.sequence)
    throw new MartingaleError(
      'bad_option',
      `--sampled is ${rest.sampled}. It must be less than --sequence (${rest.sequence}), which also counts the prompt`,
    );
  const checks = await checkSurroundings({ ...rest, env: process.env });
  const { machine, limits } = await examineMachine(threads, rest);
  const checkpoints = checkpointsOf(rest);
  const models: ModelReport[] = [];
  for (const checkpoint of checkpoints) models.push(await examineCheckpoint(checkpoint, rest, limits));
  if (checkpoints.length === 0) models.push(await examineTinyModel(rest, limits));
  const report = { machine, checks, step: stepOf(rest), models };
  process.stdout.write(json ? `${JSON.stringify(report, null, 2)}\n` : printableLines(reportText(report)));
  const isWell = checks.every((check) => check.isWell);
  if (!isWell || models.some(({ refusals }) => refusals.length > 0)) process.exitCode = 1;
}

/** Only if the database is lost: records that can be read know more than files do. */
async function repairData(data: string): Promise<void> {
  const { checkData, rebuildRecords } = await import('../../service/index.ts');
  const found = await checkData(data);
  if (found === null)
    throw new MartingaleError('data_folder_not_found', `${data} has no data of a service. Check --data.`);
  if (found.models > 0)
    throw new MartingaleError(
      'bad_option',
      `--repair is for a lost database, but the database of ${data} has ${counted(found.models, 'model')}. ` +
        (found.problems.length === 0
          ? 'Nothing is wrong with it.'
          : `Restore a backup, or move the database away: ${found.problems[0]}`),
    );
  const { models, checkpoints, logs, oldDatabase, lost } = await rebuildRecords(data);
  process.stdout.write(
    printableLines(
      [
        `Made records of ${counted(models, 'model')}, ${counted(checkpoints, 'checkpoint')} and ${counted(logs, 'log')}. Checkpoints have new ids and no metrics; jobs and events are lost.`,
        ...(oldDatabase === null ? [] : [`The old database is kept: ${oldDatabase}`]),
        ...lost.map((what) => `Not restored: ${what}`),
        '',
      ].join('\n'),
    ),
  );
}

interface Limits {
  threads: number;
  trainingBytes: number;
  usable: number;
}

async function examineMachine(
  threads = Math.min(4, availableParallelism()),
  { trainingMemory, device }: CheckpointFlags,
): Promise<{ machine: MachineReport; limits: Limits }> {
  const { defaultTrainingBytes, loadRuntime, chosenRuntime, selfTest, smallModel, usableMemory } =
    await import('../../engines/embedded/tools.ts');
  const runtime = await loadRuntime(chosenRuntime(), threads, device ? { device } : {});
  await selfTest(runtime, smallModel());
  await runtime.close();
  const usable = usableMemory();
  const trainingBytes = trainingMemory ?? defaultTrainingBytes();
  return {
    machine: {
      node: process.versions.node,
      platform: `${process.platform} ${process.arch}`,
      cores: availableParallelism(),
      threads,
      runtime: runtime.name,
      selfTest: 'passed',
      memoryBytes: totalmem(),
      usableBytes: usable,
      trainingBytes,
    },
    limits: { threads, trainingBytes, usable },
  };
}

async function examineCheckpoint(
  checkpoint: CheckpointOptions,
  options: DoctorOptions,
  { threads, trainingBytes, usable }: Limits,
): Promise<ModelReport> {
  const { inspectCheckpoint, memoryNeeds } = await import('../../engines/embedded/tools.ts');
  const inspected = await inspectCheckpoint(checkpoint, { onFetch: showFetch });
  const { id, folder, modelType, parameters, architecture, language } = inspected;
  const step = stepOf(options);
  const { batch = step.rollouts } = options;
  const { sequence } = step;
  const needed = memoryNeeds(inspected, {
    sequence,
    batch,
    device: options.device ?? 'cpu',
    trainingLimit: trainingBytes,
  });
  const { refusals, ...memory } = needsOf(inspected, needed, { sequence, usable });
  const { contextLength, vocabularySize } = architecture;
  const report = {
    id,
    parameters,
    contextLength,
    vocabularySize,
    found: { family: modelType, folder, layers: architecture.layers, chat: describeFormat(language.format) },
    memory: { ...memory, batch },
    refusals,
  };
  if (memory.weightBytes > usable) return { ...report, rates: null, stepSeconds: null };
  // From the folder that is in the cache now, so that nothing is fetched twice.
  const own = { ...checkpoint, folder, id };
  const engine = { threads, trainingBytes, device: options.device, checkpoints: [own] };
  return {
    ...report,
    ...(await measured(id, engine, step, memory.trainedTogether > 0)),
  };
}

async function examineTinyModel(
  options: DoctorOptions,
  { threads, trainingBytes }: Limits,
): Promise<ModelReport> {
  const { BaseModels } = await import('../../engines/embedded/tools.ts');
  const { id, parameters, contextLength, vocabularySize } = new BaseModels([]).find('martingale-tiny');
  const result = await measured(id, { threads, trainingBytes }, stepOf(options), true);
  return {
    id,
    parameters,
    contextLength,
    vocabularySize,
    found: null,
    memory: null,
    refusals: [],
    ...result,
  };
}

/** The rates of a base model in an engine of its own, and the time of a step by them. */
async function measured(
  id: string,
  options: EmbeddedEngineOptions,
  step: StepSize,
  trains: boolean,
): Promise<Pick<ModelReport, 'rates' | 'stepSeconds'>> {
  const { createEmbeddedEngine } = await import('../../engines/embedded/index.ts');
  if (process.stderr.isTTY) process.stderr.write(`Reading and measuring ${id} …\n`);
  const engine = await createEmbeddedEngine(options);
  try {
    const model = engine.baseModels.find((one) => one.id === id);
    if (!model) throw new Error(`the engine has no base model ${id}`);
    const rates = await probe(engine, model, step, { trains });
    return { rates, stepSeconds: stepTimeOf(step, rates) };
  } finally {
    await engine.close();
  }
}

const stepOf = ({ rollouts, group, sampled, sequence }: StepSize): StepSize => ({
  rollouts,
  group: Math.min(group, rollouts),
  sampled,
  sequence,
});

export const doctorCommand = (): Command =>
  addCheckpointFlags(new Command('doctor'))
    .description(
      'Check this machine, and measure what a checkpoint needs here and how fast it is, before you use it.',
    )
    .addOption(threadsFlag())
    .option(
      '--batch <number>',
      'sequences sampled at once, whose keys and values take memory (default: the rollouts)',
      wholeNumber(1),
    )
    .option('--rollouts <number>', 'rollouts of a training step', wholeNumber(1), 64)
    .option('--group <number>', 'rollouts of a group, which share their prompt', wholeNumber(1), 8)
    .option('--sampled <tokens>', 'tokens that the model samples in a rollout', wholeNumber(1), 200)
    .option('--sequence <tokens>', 'all tokens of a rollout, with its prompt', wholeNumber(2), 400)
    .addOption(dataFlag())
    .addOption(
      new Option('--port <number>', 'port that serve would use')
        .argParser(wholeNumber(1, 65_535))
        .default(8000),
    )
    .addOption(
      new Option('--base-url <url>', 'a service to check, with its key and clock')
        .env('MARTINGALE_BASE_URL')
        .argParser(serviceUrl),
    )
    .addOption(new Option('--api-key <key>', 'key of that service').env('MARTINGALE_API_KEY'))
    .option(
      '--model <name>',
      'a model of that service to ask for one token: project/model or entity/project/model, either with :stepN, or a base model',
    )
    .option('--json', 'write the report as JSON')
    .option('--repair', 'only make new records from the files of --data, if its database is lost')
    .addHelpText(
      'after',
      '\nThe exit status is 1 if a check fails, a checkpoint cannot be used, or a limit would refuse such a step.',
    )
    .action((options: DoctorOptions) => doctor(options));
