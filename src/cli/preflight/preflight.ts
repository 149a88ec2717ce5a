import { Command, Option } from 'commander';
import { jsonLine, printable } from '../../contract/index.ts';
import { evaluate, evaluationJsonLines, evaluationTable } from '../../evaluation/index.ts';
import { counted } from '../../progress/index.ts';
import { type RolloutGroup, runGroups } from '../../rollout/index.ts';
import { type Trajectory, textOf, toTrajectoryRecord } from '../../trajectory/index.ts';
import { alignColumns } from '../../util/text-table.ts';
import { wholeNumber } from '../flags.ts';
import { listenForInterrupt } from '../program-end.ts';
import { percentage, shortNumber, turnLines } from '../run-commands/text.ts';
import { taskBar } from '../task-bar.ts';
import { loadEnvironmentFile } from './environment-file.ts';
import { figuresOf, type PreflightFigures, type Prices } from './figures.ts';
import { addModelFlags, type ModelFlags, openModelOf } from './open-model.ts';
import { shortcutsOf, tryShortcuts } from './shortcuts.ts';

interface FileFlags extends ModelFlags {
  scenarios: string;
  json?: boolean;
}

interface PreflightFlags extends FileFlags {
  groups: number;
  rollouts: number;
  promptPrice?: number;
  sampledPrice?: number;
}

/** Runs work with the model of the flags until it ends or is interrupted. */
async function withModel(
  flags: ModelFlags,
  work: (model: Awaited<ReturnType<typeof openModelOf>>['model'], signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const interrupt = listenForInterrupt({ limitMs: 10_000, onFirst: () => {}, onEarlyExit: () => {} });
  const opened = await openModelOf(flags);
  try {
    await work(opened.model, interrupt.signal);
  } finally {
    if (interrupt.status !== undefined) process.exitCode = interrupt.status;
    await opened.close();
    interrupt.release();
  }
}

async function preflight(file: string, flags: PreflightFlags): Promise<void> {
  const { groups: count, rollouts: rolloutsPerGroup, json } = flags;
  const { environment, scenarios } = await loadEnvironmentFile(file, {
    exportName: flags.scenarios,
    most: count,
  });
  await withModel(flags, async (model, signal) => {
    const bar = taskBar();
    const result = await runGroups({
      environment,
      scenarios,
      rolloutsPerGroup,
      model,
      onProgress: ({ done, total }) => bar.show(done, total, `${done} of ${counted(total, 'rollout')}`),
      signal,
    }).finally(bar.clear);
    const shortcuts = await tryShortcuts(shortcutsOf(result.groups), { environment, scenarios, signal });
    const figures = figuresOf(result, { model: model.name, prices: pricesOf(flags), shortcuts });
    if (json) process.stdout.write(jsonLine(figures));
    else process.stdout.write(`${[...examples(result.groups), ...reportLines(figures)].join('\n')}\n`);
  });
}

const pricesOf = ({ promptPrice, sampledPrice }: PreflightFlags): Prices | null =>
  promptPrice === undefined && sampledPrice === undefined
    ? null
    : { promptTokensPerMillion: promptPrice ?? 0, sampledTokensPerMillion: sampledPrice ?? 0 };

/** The conversations of the lowest, the middle and the highest reward. */
function examples(groups: readonly RolloutGroup[]): string[] {
  const ranked = groups
    .flatMap(({ trajectories }) => trajectories)
    .sort((a, b) => (a.reward ?? 0) - (b.reward ?? 0));
  const chosen = new Set([ranked[0], ranked[ranked.length >> 1], ranked.at(-1)]);
  return [...chosen].flatMap((trajectory) => (trajectory ? [...exampleLines(trajectory), ''] : []));
}

function exampleLines(trajectory: Trajectory): string[] {
  const parts = Object.entries(trajectory.metrics).map(
    ([name, value]) => `${name} ${shortNumber(Number(value))}`,
  );
  const { messages_and_choices: entries } = toTrajectoryRecord(trajectory);
  const turns = entries.map((entry) => {
    const message = 'message' in entry ? entry.message : entry;
    const text = textOf(message.content);
    const calls = 'tool_calls' in message ? (message.tool_calls ?? []) : [];
    return { role: message.role, text, tools: calls.map((call) => call.function) };
  });
  return [
    `reward ${shortNumber(trajectory.reward)}${parts.length > 0 ? ` (${printable(parts.join(', '))})` : ''}`,
    ...turnLines(turns),
  ];
}

function reportLines(figures: PreflightFigures): string[] {
  const { counts, reward, shortcuts, costs, failures, warnings } = figures;
  const hasCost = costs.some(({ cost }) => cost !== null);
  return [
    ...alignColumns([
      ['model', figures.model],
      ['rollouts', `${counts.dispatched}: ${counts.completed} completed, ${counts.failed} failed`],
      [
        'reward',
        reward
          ? `${shortNumber(reward.mean)} (${shortNumber(reward.min)} to ${shortNumber(reward.max)})`
          : '-',
      ],
      ['success', percentage(figures.success)],
      ['groups with signal', `${figures.groupsWithSignal} of ${figures.groups}`],
      [
        'tokens of a rollout',
        `${Math.round(figures.promptTokens)} prompt, ${Math.round(figures.sampledTokens)} sampled, in ${shortNumber(figures.calls)} calls`,
      ],
      ['longest prompt', `${figures.longestPrompt} tokens`],
      ['temperature', figures.temperatures.map(shortNumber).join(', ') || 'unknown'],
      ['pace', `${shortNumber(figures.rolloutsPerSecond)} rollouts a second`],
    ]),
    ...failures.map(
      ({ code, message, count, at }) =>
        `x ${count} ${code}: ${printable(message)}${at === undefined ? '' : ` at ${at}`}`,
    ),
    '',
    'What shortcuts earn',
    ...alignColumns(
      shortcuts.map(({ name, reward: earned, completed, rollouts }) => [
        `  ${name}`,
        completed === 0 ? 'fails' : shortNumber(earned),
        completed === rollouts ? '' : `${completed} of ${rollouts} completed`,
      ]),
    ),
    '',
    ...(costs.length === 0 ? [] : ['What a run needs for its rollouts; training comes on top']),
    ...alignColumns(
      costs.length === 0
        ? []
        : [
            ['', 'ROLLOUTS', 'TOKENS SAMPLED', 'MINUTES', ...(hasCost ? ['COST'] : [])],
            ...costs.map(({ name, rollouts, sampledTokens, rolloutMinutes, cost }) => [
              `  ${name}`,
              String(rollouts),
              String(sampledTokens),
              shortNumber(rolloutMinutes),
              ...(hasCost ? [shortNumber(cost)] : []),
            ]),
          ],
    ),
    ...(warnings.length > 0
      ? ['', ...warnings.map((warning) => `! ${printable(warning)}`)]
      : ['', `No warnings from ${counted(counts.dispatched, 'rollout')}.`]),
  ];
}

interface EvalFlags extends FileFlags {
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
      ...(json ? { progress: false as const } : {}),
      signal,
    });
    process.stdout.write(json ? evaluationJsonLines(evaluation) : evaluationTable(evaluation));
  });
}

const scenariosFlag = () =>
  new Option('--scenarios <export>', 'the export with the scenarios').default('scenarios');
const jsonFlag = (what: string) => new Option('--json', what);
const price = (text: string): number => Number(text);

export const preflightCommands = (): Command[] => [
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
      .option('--prompt-price <amount>', 'price of a million prompt tokens', price)
      .option('--sampled-price <amount>', 'price of a million sampled tokens', price)
      .addOption(jsonFlag('print one JSON object, for programs')),
  ).action(preflight),
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
      .addOption(jsonFlag('print a JSON line for each scenario')),
  ).action(evaluateFile),
];
