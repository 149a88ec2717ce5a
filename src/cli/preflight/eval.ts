import { stat } from 'node:fs/promises';
import { Command, Option } from 'commander';
import { MartingaleError } from '../../contract/index.ts';
import {
  type EvaluationSource,
  evaluate,
  evaluationJsonLines,
  evaluationTable,
  gate,
  readEvaluation,
} from '../../evaluation/index.ts';
import { type ModelHandle, replayModel } from '../../model/index.ts';
import { anyNumber, wholeNumber } from '../flags.ts';
import { loadEnvironmentFile, scenariosFlag } from './environment-file.ts';
import { pricesOf } from './figures.ts';
import { addModelFlags, type ModelFlags, withModel } from './open-model.ts';

interface EvalFlags extends ModelFlags {
  scenarios: string;
  json?: boolean;
  count: number;
  rollouts: number;
  out?: string;
  record?: string;
  calls?: string;
  against?: string;
  margin?: number;
  measure: 'reward' | 'success';
  confidence: number;
  promptPrice?: number;
  sampledPrice?: number;
}

async function evaluateFile(file: string, flags: EvalFlags): Promise<void> {
  if (flags.margin !== undefined && flags.against === undefined)
    throw new MartingaleError('bad_option', '--margin needs --against with the evaluation to compare with.');
  if (await isStoredEvaluation(file)) {
    if (flags.against === undefined)
      throw new MartingaleError(
        'bad_option',
        `${file} is a stored evaluation: name the one to compare it with by --against.`,
      );
    const unused = (['model', 'out', 'record', 'calls', 'promptPrice', 'sampledPrice'] as const).find(
      (name) => flags[name] !== undefined,
    );
    if (unused)
      throw new MartingaleError(
        'bad_option',
        `--${unused.replace('Price', '-price')} has no effect on a stored evaluation: leave it out.`,
      );
    return passGate(file, flags);
  }
  const { environment, scenarios } = await loadEnvironmentFile(file, {
    exportName: flags.scenarios,
    most: flags.count,
  });
  // Before the rollouts, which cost time or money: it may be misspelt.
  const baseline = flags.against === undefined ? undefined : await readEvaluation(flags.against);
  const run = async (model: ModelHandle, signal?: AbortSignal) => {
    const { rollouts, out, record, json } = flags;
    const evaluation = await evaluate({
      environment,
      scenarios,
      model: record === undefined ? model : model.recordingTo(record),
      rolloutsPerScenario: rollouts,
      ...(rollouts > 1 ? { temperature: 'agent' as const } : {}),
      ...(out === undefined ? {} : { directory: out }),
      prices: pricesOf(flags) ?? undefined,
      progress: true,
      ...(signal ? { signal } : {}),
    });
    process.stdout.write(json ? evaluationJsonLines(evaluation) : evaluationTable(evaluation));
    if (evaluation.counts.completed === 0) process.exitCode = 1;
    else if (!signal?.aborted) await passGate(evaluation, { ...flags, against: baseline });
  };
  if (flags.calls === undefined) return withModel(flags, run);
  const { model } = await replayModel({ file: flags.calls, ...(flags.model ? { name: flags.model } : {}) });
  return run(model);
}

const isStoredEvaluation = async (file: string): Promise<boolean> =>
  /\.(jsonl|ndjson)$/.test(file) || ((await stat(file).catch(() => null))?.isDirectory() ?? false);

/** Says how the evaluation compares with the one of `--against`, and sets the exit status. */
async function passGate(
  evaluation: EvaluationSource,
  { against, margin, measure, confidence, json }: Omit<EvalFlags, 'against'> & { against?: EvaluationSource },
): Promise<void> {
  if (against === undefined) return;
  const { pass, report } = await gate(evaluation, against, {
    measure,
    confidence,
    ...(margin === undefined ? {} : { margin }),
  });
  // With --json, standard output has only lines of scenarios; else the report is below the table.
  if (json) process.stderr.write(`${report}\n`);
  else process.stdout.write(`${typeof evaluation === 'string' ? '' : '\n'}${report}\n`);
  if (!pass) process.exitCode = 1;
}

export const evalCommand = (): Command =>
  addModelFlags(
    new Command('eval')
      .description(
        'Evaluate a model in an environment: mean reward and success with intervals, scenario by scenario; or compare it with an earlier evaluation.',
      )
      .argument(
        '<file>',
        'a module that exports an environment by default, and `scenarios`; with --against also a stored evaluation',
      )
      .addOption(scenariosFlag())
      .addOption(new Option('--count <count>', 'scenarios at most').argParser(wholeNumber(1)).default(1000))
      .addOption(
        new Option(
          '--rollouts <count>',
          'rollouts of each; 1 is greedy, more use the temperature of the agent',
        )
          .argParser(wholeNumber(1, 1000))
          .default(1),
      )
      .option('--out <folder>', 'keep each scenario there, and continue from there')
      .option('--prompt-price <amount>', 'price of a million prompt tokens, for its cost', anyNumber(0))
      .option('--sampled-price <amount>', 'price of a million sampled tokens', anyNumber(0))
      .option('--record <file>', "write the model's calls there, for --calls")
      .addOption(
        new Option('--calls <file>', 'answer from recorded calls, without a model').conflicts([
          'record',
          'baseUrl',
          'checkpoint',
        ]),
      )
      .option(
        '--against <evaluation>',
        'compare with a stored one: a folder of --out, or a file with the lines of --json',
      )
      .addOption(
        new Option(
          '--margin <number>',
          'with --against: how much worse it may be (default: it must be better)',
        ).argParser(anyNumber(0)),
      )
      .addOption(
        new Option('--measure <measure>', 'with --against: what is compared')
          .choices(['reward', 'success'])
          .default('reward'),
      )
      .addOption(
        new Option('--confidence <share>', 'with --against: of the interval and the test')
          .argParser(anyNumber(0.5, 0.999))
          .default(0.95),
      )
      .addOption(new Option('--json', 'print a JSON line for each scenario, with its failures'))
      .addHelpText(
        'after',
        '\nThe exit status is 1 if no rollout completed, or if the comparison of --against fails.',
      ),
  ).action(evaluateFile);
