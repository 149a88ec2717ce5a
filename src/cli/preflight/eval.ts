import { Command, Option } from 'commander';
import { evaluate, evaluationJsonLines, evaluationTable } from '../../evaluation/index.ts';
import { wholeNumber } from '../flags.ts';
import { loadEnvironmentFile, scenariosFlag } from './environment-file.ts';
import { addModelFlags, type ModelFlags, withModel } from './open-model.ts';

interface EvalFlags extends ModelFlags {
  scenarios: string;
  json?: boolean;
  count: number;
  rollouts: number;
  out?: string;
}

async function evaluateFile(
  file: string,
  { count, rollouts, out, json, ...flags }: EvalFlags,
): Promise<void> {
  const { environment, scenarios } = await loadEnvironmentFile(file, {
    exportName: flags.scenarios,
    most: count,
  });
  await withModel(flags, async (model, signal) => {
    const evaluation = await evaluate({
      environment,
      scenarios,
      model,
      rolloutsPerScenario: rollouts,
      ...(rollouts > 1 ? { temperature: 'agent' as const } : {}),
      ...(out === undefined ? {} : { directory: out }),
      progress: true,
      signal,
    });
    process.stdout.write(json ? evaluationJsonLines(evaluation) : evaluationTable(evaluation));
    if (evaluation.counts.completed === 0) process.exitCode = 1;
  });
}

export const evalCommand = (): Command =>
  addModelFlags(
    new Command('eval')
      .description(
        'Evaluate a model in an environment: mean reward and success with intervals, scenario by scenario.',
      )
      .argument('<file>', 'a module that exports an environment by default, and `scenarios`')
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
      .addOption(new Option('--json', 'print a JSON line for each scenario, with its failures'))
      .addHelpText('after', '\nThe exit status is 1 if no rollout completed.'),
  ).action(evaluateFile);
