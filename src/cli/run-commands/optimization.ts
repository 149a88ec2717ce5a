import { printable, printableLines } from '../../contract/index.ts';
import { counted } from '../../progress/index.ts';
import { alignColumns } from '../../util/text-table.ts';
import { branchesOf, type OptimizationDetail } from '../../view/index.ts';
import { percentage, shortNumber } from './text.ts';

/** The tree of candidates of an optimisation, and the texts that the best one has changed. */
export function optimizationLines({ candidates, best, scenarios, spent }: OptimizationDetail): string[] {
  const own = candidates[0]?.texts ?? {};
  const texts = candidates[best]?.texts ?? {};
  const changed = Object.entries(texts).filter(([name, text]) => text !== own[name]);
  const { model, reflect, rollouts } = spent;
  return [
    '',
    ...alignColumns([
      ['CANDIDATE', 'CHANGED', 'REWARD', 'SUCCESS', 'WINS'],
      ...branchesOf(candidates).map(({ candidate: { number, text, reward, success, wins }, depth }) => [
        `${'  '.repeat(depth)}${number}${number === best ? ' (best)' : ''}`,
        printable(text ?? '-'),
        shortNumber(reward),
        percentage(success),
        `${wins.length} of ${scenarios.length}`,
      ]),
    ]),
    '',
    `${counted(rollouts, 'rollout')}; tokens of the model ${model.promptTokens} + ${model.sampledTokens}, of reflect ` +
      `${reflect.promptTokens} + ${reflect.sampledTokens}${spent.cost === null ? '' : `; cost ${shortNumber(spent.cost)}`}`,
    ...changed.flatMap(([name, text]) => ['', `${printable(name)}:`, ...indented(text)]),
    ...(changed.length > 0 ? ['', 'The best texts are in texts.json of the folder.'] : []),
  ];
}

const indented = (text: string): string[] =>
  printableLines(text)
    .split('\n')
    .map((line) => `  ${line}`);
