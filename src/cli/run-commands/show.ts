import { printable } from '../../contract/index.ts';
import { alarmTitle, counted } from '../../progress/index.ts';
import { describeFailureKinds } from '../../rollout/index.ts';
import { alignColumns } from '../../util/text-table.ts';
import type { GroupDetail, RunDetail, StepDetail } from '../../view/index.ts';
import { chooseRun } from './chosen-run.ts';
import { print, printJson, type RunFlags } from './print.ts';
import { percentage, rolloutHead, shortNumber, turnLines } from './text.ts';

export interface ShowFlags extends RunFlags {
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

function runLines({ reports, evaluations, alarms, failures, config: _, ...row }: RunDetail): string[] {
  const last = reports.at(-1);
  return [
    `${printable(row.name)}  ${row.status}${row.because === null ? '' : `: ${printable(row.because)}`}`,
    ...alignColumns([
      ['model', printable(row.model ?? '-')],
      ['environment', printable(row.environment ?? '-')],
      ['step', `${row.step} of ${row.steps}`],
      ['reward', shortNumber(row.reward)],
      ['success', percentage(row.success)],
      ['entropy', shortNumber(last?.entropy)],
      ['tokens', String(row.tokens)],
      ['folder', row.folder],
    ]),
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
  const most = Math.max(1, ...bins.map(({ count }) => count));
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
      reward: Math.min(...rollouts.map(({ reward }) => reward ?? Number.POSITIVE_INFINITY)),
    }))
    .sort((a, b) => a.reward - b.reward)
    .slice(0, count)
    .map(({ group }) => group);

function worstRollout({ group, seat, scenario, rollouts }: GroupDetail): string[] {
  const [worst] = [...rollouts].sort((a, b) => (a.reward ?? 0) - (b.reward ?? 0));
  if (!worst) return [];
  return [groupHead({ group, seat, scenario }), rolloutHead(worst), ...turnLines(worst.turns)];
}

const groupHead = ({ group, seat, scenario }: Pick<GroupDetail, 'group' | 'seat' | 'scenario'>): string =>
  `group ${group}  ${seat ? `seat ${printable(seat.name)} (${printable(seat.model)})  ` : ''}${scenarioLine(scenario)}`;

const groupLines = ({ group, seat, scenario, rollouts, hasSignal, dropped }: GroupDetail): string[] => [
  groupHead({ group, seat, scenario }),
  dropped === null
    ? hasSignal
      ? 'it has a signal'
      : 'no signal: its rewards are equal'
    : `left out: ${printable(dropped)}`,
  ...rollouts.flatMap((rollout) => ['', rolloutHead(rollout), ...turnLines(rollout.turns)]),
];

const scenarioLine = (scenario: unknown): string =>
  printable(typeof scenario === 'string' ? scenario : (JSON.stringify(scenario) ?? '')).slice(0, 300);
