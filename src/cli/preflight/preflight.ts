import { Command, Option } from 'commander';
import { jsonLine } from '../../contract/index.ts';
import { counted } from '../../progress/index.ts';
import { runGroups } from '../../rollout/index.ts';
import { anyNumber, wholeNumber } from '../flags.ts';
import { taskBar } from '../task-bar.ts';
import { loadEnvironmentFile, scenariosFlag } from './environment-file.ts';
import { figuresOf, pricesOf } from './figures.ts';
import { addModelFlags, type ModelFlags, withModel } from './open-model.ts';
import { measurePace } from './pace.ts';
import { examples, reportLines } from './report.ts';
import { shortcutsOf, tryShortcuts } from './shortcuts.ts';

interface PreflightFlags extends ModelFlags {
  scenarios: string;
  json?: boolean;
  groups: number;
  rollouts: number;
  promptPrice?: number;
  sampledPrice?: number;
}

/** The least time of a shortcut, in milliseconds; else it has as long as the rollouts of the model took. */
const leastShortcutMs = 10_000;

async function preflight(file: string, flags: PreflightFlags): Promise<void> {
  const { groups: count, rollouts: rolloutsPerGroup, json, baseUrl } = flags;
  const { environment, scenarios } = await loadEnvironmentFile(file, {
    exportName: flags.scenarios,
    most: count,
  });
  await withModel(flags, async (model, signal) => {
    const bar = taskBar();
    const round = (what: string) => () =>
      runGroups({
        environment,
        scenarios,
        rolloutsPerGroup,
        model,
        onProgress: ({ done, total }) =>
          bar.show(done, total, `${done} of ${counted(total, 'rollout')}${what}`),
        signal,
      }).finally(bar.clear);
    bar.show(0, 1, `rollouts of ${environment.name} with ${model.name}`);
    const result = await round('')();
    const rolloutsPerSecond = await measurePace({
      first: result,
      again: round(' again, for their pace'),
      isFree: baseUrl === undefined,
      signal,
    });
    const limitMs = Math.max(leastShortcutMs, result.durationMs);
    const shortcuts = await tryShortcuts(shortcutsOf(result.groups), {
      environment,
      scenarios,
      limitMs,
      onProgress: shortcutBar(limitMs),
      signal,
    });
    const figures = figuresOf(result, {
      model: model.name,
      rolloutsPerSecond,
      prices: pricesOf(flags),
      shortcuts,
    });
    if (json) process.stdout.write(jsonLine(figures));
    else process.stdout.write(`${[...examples(result.groups), ...reportLines(figures)].join('\n')}\n`);
    if (result.counts.completed === 0) process.exitCode = 1;
  });
}

/** Shows each shortcut as a task of its own. */
function shortcutBar(limitMs: number) {
  let shown = '';
  let bar = taskBar();
  return (name: string, { done, total }: { done: number; total: number }): void => {
    if (name !== shown) bar = taskBar();
    shown = name;
    bar.show(done, total, `a shortcut, for at most ${Math.ceil(limitMs / 1000)} s: ${name}`);
  };
}

export const preflightCommand = (): Command =>
  addModelFlags(
    new Command('preflight')
      .description(
        'Try an environment before a run: conversations, signal, failures, cost, and shortcuts to the reward.',
      )
      .argument('<file>', 'a module that exports an environment by default, and `scenarios`')
      .addOption(scenariosFlag())
      .addOption(
        new Option('--groups <count>', 'scenarios to try').argParser(wholeNumber(1, 1000)).default(8),
      )
      .addOption(
        new Option('--rollouts <count>', 'rollouts of each').argParser(wholeNumber(2, 100)).default(4),
      )
      .option('--prompt-price <amount>', 'price of a million prompt tokens', anyNumber(0))
      .option('--sampled-price <amount>', 'price of a million sampled tokens', anyNumber(0))

      .addOption(new Option('--json', 'print one JSON object, for programs'))
      .addHelpText('after', '\nThe exit status is 1 if no rollout completed; warnings do not change it.'),
  ).action(preflight);
