import { printable } from '../../contract/index.ts';
import { alarmTitle, counted } from '../../progress/index.ts';
import { describeFailureKinds } from '../../rollout/index.ts';
import { largestOf, smallestOf } from '../../util/extremes.ts';
import { alignColumns } from '../../util/text-table.ts';
import type { GroupDetail, RunDetail, StepDetail } from '../../view/index.ts';
import { chooseRun } from './chosen-run.ts';
import { optimizationLines } from './optimization.ts';
import { print, printJson, type RunFlags } from './print.ts';
import { percentage, rolloutHead, shortNumber, turnLines } from './text.ts';

interface ShowFlags extends RunFlags {
  step?: string;
  worst: number;
  group?: number;
}

/** `martingale show`. */
export async function show(
  name: string | undefined,
  { in: folder, step, worst, group, json }: ShowFlags,
): Promise<void> {
  const { views, row } = await chooseRun(name, folder);
  if (step === undefined && group === undefined) {
    const run = await views.run(row.id);
    return json ? printJson(run) : print(runLines(run));
  }
  const which = step ?? String(row.step - 1);
  if (group !== undefined) {
    const detail = await views.group(row.id, which, group);
    return json ? printJson(detail) : print(groupLines(detail));
  }
  const detail = await views.step(row.id, which);
  const groups = await Promise.all(worstGroups(detail, worst).map((one) => views.group(row.id, which, one)));
  if (json) return printJson({ ...detail, worst: groups });
  const left = detail.groups.length - groups.length;
  const more =
    left > 0 ? ['', `${counted(left, 'more group')}: --worst ${detail.groups.length} shows all`] : [];
  print([...stepLines(detail), ...groups.flatMap((one) => ['', ...worstRollout(one)]), ...more]);
}

function runLines({
  reports,
  evaluations,
  alarms,
  failures,
  optimization,
  config: _,
  ...row
}: RunDetail): string[] {
  const last = reports.at(-1);
  return [
    `${printable(row.name)}  ${row.status}${row.because === null ? '' : `: ${printable(row.because)}`}`,
    ...alignColumns([
      ['model', printable(row.model ?? '-')],
      ['environment', printable(row.environment ?? '-')],
      [optimization ? 'iteration' : 'step', `${row.step} of ${row.steps}`],
      ['reward', shortNumber(row.reward)],
      ['success', percentage(row.success)],
      ...(optimization ? [] : [['entropy', shortNumber(last?.entropy)]]),
      ['tokens', String(row.tokens)],
      ['folder', row.folder],
    ]),
    ...(optimization ? optimizationLines(optimization) : []),
    ...(evaluations.length > 0 ? ['', ...validationLines(evaluations)] : []),
    ...alarms
      .slice(-5)
      .flatMap((alarm) => [
        '',
        `! ${alarmTitle(alarm)}: ${printable(alarm.message)}`,
        `  ${printable(alarm.lookAt)}`,
      ]),
    ...failures
      .slice(0, 5)
      .map(
        ({ kind, count, step }) =>
          `x ${count} of ${step === null ? 'a validation' : `step ${step}`}: ${printable(kind)}`,
      ),
  ];
}

const validationLines = (evaluations: RunDetail['evaluations']): string[] =>
  alignColumns([
    ['VALIDATION', 'REWARD', '95 %', 'SUCCESS', 'SCENARIOS'],
    ...evaluations.map(({ name, reward, rewardInterval, success, scenarios }) => [
      printable(name),
      shortNumber(reward),
      rewardInterval === null ? '-' : rewardInterval.map(shortNumber).join(' to '),
      percentage(success),
      String(scenarios),
    ]),
  ]);

function stepLines({ which, groups, failures, bins, report, counts, seats }: StepDetail): string[] {
  const ended = (['failed', 'cancelled'] as const).filter((status) => counts[status] > 0);
  const most = largestOf(
    bins.map(({ count }) => count),
    1,
  );
  return [
    `${/^\d+$/.test(which) ? `step ${which}` : which}: ` +
      `${counted(groups.length, 'group')}${seats.length > 0 ? ' of one seat each' : ''}, ` +
      `${counted(counts.dispatched, 'rollout')}${seats.length > 0 ? ` with the seats ${seats.map(printable).join(', ')}` : ''}, ` +
      ended.map((status) => `${counts[status]} ${status}, `).join('') +
      `${groups.filter(({ hasSignal }) => hasSignal).length} groups with signal${report ? `, reward ${shortNumber(report.reward)}` : ''}`,
    ...bins.map(({ from, to, count }) =>
      [
        (from === to ? shortNumber(from) : `${shortNumber(from)} to ${shortNumber(to)}`).padStart(18),
        '█'.repeat(Math.ceil((count / most) * 40)),
        count,
      ].join(' '),
    ),
    ...alignColumns(
      (report?.opponents ?? []).map(({ seat, model, rollouts: met, reward }) => [
        `against ${printable(model)} as ${printable(seat)}`,
        `reward ${shortNumber(reward)}`,
        counted(met, 'rollout'),
      ]),
    ),
    ...describeFailureKinds(failures),
  ];
}

/** The groups with the lowest rewards, each once. */
const worstGroups = ({ groups }: StepDetail, count: number): number[] =>
  groups
    .map(({ group, rollouts }) => ({
      group,
      reward: smallestOf(rollouts.map(({ reward }) => reward ?? Number.POSITIVE_INFINITY)),
    }))
    .sort((a, b) => a.reward - b.reward)
    .slice(0, count)
    .map(({ group }) => group);

function worstRollout({ rollouts, ...group }: GroupDetail): string[] {
  const [worst] = [...rollouts].sort((a, b) => (a.reward ?? 0) - (b.reward ?? 0));
  if (!worst) return [];
  return [groupHead(group), rolloutHead(worst), ...turnLines(worst.turns)];
}

/** The title of a seat's group begins with the seat. */
const groupHead = ({ group, seat, title }: Pick<GroupDetail, 'group' | 'seat' | 'title'>): string =>
  `group ${group}  ${printable(title)}${seat ? `  (${printable(seat.model)})` : ''}`;

const groupLines = ({ rollouts, hasSignal, isSolved, dropped, ...group }: GroupDetail): string[] => [
  groupHead(group),
  `scenario ${printable(JSON.stringify(group.scenario) ?? '').slice(0, 2000)}`,
  dropped !== null
    ? `left out: ${printable(dropped)}`
    : hasSignal
      ? 'it has a signal'
      : isSolved
        ? 'every rollout solved it: nothing is left to learn'
        : 'no signal: its rewards are equal',
  ...rollouts.flatMap((rollout) => ['', rolloutHead(rollout), ...turnLines(rollout.turns)]),
];
