import { basename, join } from 'node:path';
import { openModel, supervise, type TrainResult, train } from 'martingale';
import {
  comparisonLines,
  describeFailure,
  interruptedStatus,
  listenForInterrupt,
  printLines,
  showProgress,
  writeJsonLine,
} from 'martingale/cli';
import { deskDemonstrations } from './demonstrations.ts';
import { desk } from './environment.ts';
import { type DeskOptions, readOptions } from './options.ts';
import { comparisonOf, stoppedText, summaryOf } from './outcome.ts';
import { claimRunDirectory, newRunDirectory } from './run-directory.ts';
import { deskScenarios } from './scenarios.ts';
import { rlConfig, supervisedBatches, supervisedBatchSize, supervisedLearningRates } from './schedule.ts';
import { type DeskService, openService } from './service.ts';

const validationScenarios = 256;
const trainingScenarios = 5000;

interface Run {
  options: DeskOptions;
  service: DeskService;
  runDirectory: string;
  onEvent: NonNullable<Parameters<typeof supervise>[0]['onEvent']>;
  signal: AbortSignal;
}

/** Teaches the bad habits, then lets reinforcement learning repair them. */
async function learn({ options, service, runDirectory, onEvent, signal }: Run): Promise<TrainResult> {
  const { seed, steps, groups, rolloutsPerGroup, baseModel } = options;
  const model = await openModel({
    client: service.client,
    project: 'desk',
    // On a service of many runs, a name of its own; else training would go on from the last run's model.
    name: service.dataFolder === null ? basename(runDirectory) : `seed-${seed}`,
    baseModel,
    signal,
  });
  const started = await supervise({
    model,
    examples: await deskDemonstrations({ seed, count: supervisedBatches * supervisedBatchSize }),
    batchSize: supervisedBatchSize,
    learningRate: supervisedLearningRates(supervisedBatches),
    phase: 'supervised start',
    onEvent,
    signal,
  });
  return train({
    environment: desk,
    scenarios: deskScenarios({ split: 'train', seed, count: trainingScenarios }),
    validation: { scenarios: deskScenarios({ split: 'val', seed, count: validationScenarios }) },
    model: started.model,
    steps,
    groupsPerStep: groups,
    rolloutsPerGroup,
    config: rlConfig,
    seed,
    runDirectory: join(runDirectory, 'training'),
    onEvent,
    signal,
  });
}

const options = readOptions(process.argv);
const startedMs = performance.now();
const runDirectory = options.runDirectory ?? newRunDirectory(options.seed);
const progress = showProgress({ json: options.json });
const interrupt = listenForInterrupt(() => progress.note('Stopping. Ctrl-C again leaves at once.'));
let service: DeskService | undefined;
try {
  await claimRunDirectory(runDirectory);
  service = await openService(options, runDirectory);
  const run = { options, service, runDirectory, onEvent: progress.listen, signal: interrupt.signal };
  const result = await learn(run);
  progress.close();
  const finished = { result, options, runDirectory, dataFolder: service.dataFolder };
  const comparison = comparisonOf(finished);
  if (options.json)
    writeJsonLine(process.stdout, summaryOf(finished, (performance.now() - startedMs) / 1000));
  else if (comparison) printLines([[], ...comparisonLines(comparison, process.stdout.columns || 100)]);
  else process.stdout.write(`${stoppedText(result.reports.length, runDirectory)}\n`);
  if (result.reason === 'stopped') process.exitCode = interruptedStatus;
} catch (error) {
  progress.close();
  const what = interrupt.signal.aborted ? stoppedText(0, runDirectory) : describeFailure(error);
  process.stderr.write(`${what}\n`);
  process.exitCode = interrupt.signal.aborted ? interruptedStatus : 1;
} finally {
  await service?.close();
  interrupt.release();
}
