import { printable } from '../../contract/index.ts';
import { counted, duration } from '../../progress/index.ts';
import { describeFailureKinds, type RolloutGroup } from '../../rollout/index.ts';
import { readableMessage, type Trajectory, toTrajectoryRecord } from '../../trajectory/index.ts';
import { alignColumns } from '../../util/text-table.ts';
import { percentage, shortNumber, turnLines } from '../run-commands/text.ts';
import type { PreflightFigures } from './figures.ts';

/** The conversations of the lowest, the middle and the highest reward. */
export function examples(groups: readonly RolloutGroup[]): string[] {
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
    const { role, text, toolCalls } = readableMessage(entry);
    return { role, text, tools: toolCalls.map((call) => call.function) };
  });
  return [
    `reward ${shortNumber(trajectory.reward)}${parts.length > 0 ? ` (${printable(parts.join(', '))})` : ''}`,
    ...turnLines(turns),
  ];
}

export function reportLines(figures: PreflightFigures): string[] {
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
      ['pace', `at least ${shortNumber(figures.rolloutsPerSecond)} rollouts a second`],
    ]),
    ...describeFailureKinds(failures),
    '',
    'What shortcuts earn',
    ...alignColumns(
      shortcuts.map(({ name, reward: earned, completed, rollouts, outOfTime }) => [
        `  ${name}`,
        completed > 0 ? shortNumber(earned) : outOfTime ? 'unknown' : 'fails',
        completed === rollouts
          ? ''
          : `${completed} of ${rollouts} completed${outOfTime ? ', then its time was up' : ''}`,
      ]),
    ),
    '',
    ...(costs.length === 0 ? [] : ['What a run needs for its rollouts; training comes on top']),
    ...alignColumns(
      costs.length === 0
        ? []
        : [
            ['', 'ROLLOUTS', 'TOKENS SAMPLED', 'TIME AT MOST', ...(hasCost ? ['COST'] : [])],
            ...costs.map(({ name, rollouts, sampledTokens, rolloutMinutes, cost }) => [
              `  ${name}`,
              String(rollouts),
              String(sampledTokens),
              duration(rolloutMinutes * 60_000),
              ...(hasCost ? [shortNumber(cost)] : []),
            ]),
          ],
    ),
    ...(warnings.length > 0
      ? ['', ...warnings.map((warning) => `! ${printable(warning)}`)]
      : ['', `No warnings from ${counted(counts.dispatched, 'rollout')}.`]),
  ];
}
