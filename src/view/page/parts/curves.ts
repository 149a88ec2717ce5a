import type { AlarmKind, StepReport } from '../../../progress/report.ts';
import { sumOf } from '../../../util/sums.ts';
import { formatCost, formatCount, formatNumber, formatSeconds, formatShare, inWords } from './format.ts';

/** A curve of a run: which figures of the reports it shows, and which alarms belong to it. */
export interface Curve {
  id: string;
  title: string;
  /** Tooltip of the title. */
  meaning: string;
  lines: readonly { label: string; of: (report: StepReport) => number | null; dashed?: boolean }[];
  format?: (value: number) => string;
  /** The smallest and the largest value that there can be. */
  range?: readonly [number, number];
  /** Adds up over the steps. */
  isSum?: boolean;
  /** Which score of the validations it shows beside. */
  validation?: 'reward' | 'success';
  alarms?: readonly AlarmKind[];
}

const ofShares = { format: formatShare, range: [0, 1] } as const;

const maxReasons = 3;

/** The curves of a run in the order of their worth, without those that have no values. */
export function curvesOf(reports: readonly StepReport[]): { main: Curve[]; more: Curve[] } {
  const hasValues = ({ lines }: Curve) =>
    reports.some((report) => lines.some(({ of }) => of(report) !== null));
  return {
    main: [
      ...outcomes,
      ...metricsOf(reports),
      ...learning,
      failuresOf(reports),
      ...toolsOf(reports),
      ...resources,
    ].filter(hasValues),
    more: optimizer.filter(hasValues),
  };
}

const outcomes: Curve[] = [
  {
    id: 'reward',
    title: 'Reward',
    meaning: 'Mean reward of the completed rollouts; dots are validations with their 95 % interval.',
    lines: [{ label: 'Reward', of: ({ reward }) => reward }],
    validation: 'reward',
    alarms: ['collapse', 'reward_up_success_flat', 'reward_against_success', 'reward_up_validation_down'],
  },
  {
    id: 'success',
    title: 'Success',
    meaning: 'Share of completed rollouts that succeeded; dots are validations with their 95 % interval.',
    lines: [{ label: 'Success', of: ({ success }) => success }],
    ...ofShares,
    validation: 'success',
  },
];

/** Every metric of the environment but success, which has its curve. */
function metricsOf(reports: readonly StepReport[]): Curve[] {
  const names = new Set(reports.flatMap(({ metrics }) => Object.keys(metrics)));
  names.delete('success');
  return [...names].sort().map((name) => ({
    id: `metric ${name}`,
    title: inWords(name),
    meaning: `Mean of the metric ${name} over the completed rollouts.`,
    lines: [{ label: name, of: ({ metrics }) => metrics[name] ?? null }],
  }));
}

const learning: Curve[] = [
  {
    id: 'signal',
    title: 'Groups with signal',
    meaning: 'Share of groups whose rewards differ, so that they teach something.',
    lines: [{ label: 'With signal', of: (report) => share(report.groupsWithSignal, report.groups) }],
    ...ofShares,
    alarms: ['no_signal'],
  },
  {
    id: 'entropy',
    title: 'Entropy',
    meaning: 'Mean entropy of the sampled decisions, in nats.',
    lines: [{ label: 'Entropy', of: ({ entropy }) => entropy }],
    alarms: ['greedy_sampling'],
  },
  {
    id: 'reply',
    title: 'Reply length',
    meaning: 'Sampled tokens of a completed rollout.',
    lines: [
      { label: 'Mean', of: ({ replyTokens }) => replyTokens.mean },
      { label: 'Longest', of: ({ replyTokens }) => replyTokens.max, dashed: true },
    ],
    alarms: ['context_overflow'],
  },
  {
    id: 'repeated',
    title: 'Repeated text',
    meaning: 'Share of four-token sequences that occurred earlier in the same reply.',
    lines: [{ label: 'Repeated', of: ({ repeatedShare }) => repeatedShare }],
    ...ofShares,
    alarms: ['repeated_text'],
  },
  {
    id: 'distance',
    title: 'Sampler–trainer distance',
    meaning: 'Largest difference of a log-probability between sampler and trainer.',
    lines: [{ label: 'Largest', of: ({ logprobDifference }) => logprobDifference }],
    alarms: ['sampler_trainer_mismatch', 'wrong_model'],
  },
  {
    id: 'clipped',
    title: 'Clipped share',
    meaning: 'Share of tokens whose importance ratio was clipped, masked or capped.',
    lines: [{ label: 'Clipped', of: ({ clippedShare }) => clippedShare }],
    ...ofShares,
    alarms: ['clipped'],
  },
  {
    id: 'staleness',
    title: 'Staleness',
    meaning: 'Checkpoints between the one that sampled a group and the one trained on it.',
    lines: [
      { label: 'Mean', of: ({ staleness }) => staleness.mean },
      { label: 'Largest', of: ({ staleness }) => staleness.max, dashed: true },
    ],
    alarms: ['stale'],
  },
];

/** Failures by their most frequent reasons; what is left is one line. */
function failuresOf(reports: readonly StepReport[]): Curve {
  const totals = new Map<string, number>();
  for (const { failures } of reports)
    for (const [code, count] of Object.entries(failures)) totals.set(code, (totals.get(code) ?? 0) + count);
  const ranked = [...totals].sort(([, a], [, b]) => b - a).map(([code]) => code);
  const named = ranked.slice(0, ranked.length > maxReasons + 1 ? maxReasons : maxReasons + 1);
  const others = ranked.slice(named.length);
  const sum = (report: StepReport, codes: readonly string[]) =>
    sumOf(codes, (code) => report.failures[code] ?? 0);
  return {
    id: 'failures',
    title: 'Failures',
    meaning: 'Failed and cancelled rollouts by reason.',
    lines: [
      ...(ranked.length === 0
        ? [{ label: 'All', of: (report: StepReport) => report.failed + report.cancelled }]
        : []),
      ...named.map((code) => ({ label: inWords(code), of: (report: StepReport) => sum(report, [code]) })),
      ...(others.length > 0 ? [{ label: 'Others', of: (report: StepReport) => sum(report, others) }] : []),
    ],
    alarms: ['failures', 'calls_in_flight', 'other_models', 'credit_unused'],
  };
}

function toolsOf(reports: readonly StepReport[]): Curve[] {
  if (!reports.some(({ tools }) => Object.keys(tools).length > 0)) return [];
  return [
    {
      id: 'tools',
      title: 'Tool errors',
      meaning: 'Share of tool calls that ended in an error or had invalid arguments.',
      lines: [
        {
          label: 'Errors',
          of: ({ tools }) => {
            const uses = Object.values(tools);
            const total = (of: 'uses' | 'errors' | 'invalid') => sumOf(uses, (use) => use[of]);
            return share(total('errors') + total('invalid'), total('uses') + total('invalid'));
          },
        },
      ],
      ...ofShares,
      alarms: ['tool_errors'],
    },
  ];
}

const resources: Curve[] = [
  {
    id: 'time',
    title: 'Time by phase',
    meaning: 'Seconds of each step, by what it waited for.',
    lines: [
      { label: 'Rollouts', of: ({ phases }) => phases.rollouts },
      { label: 'Training', of: ({ phases }) => phases.training },
      { label: 'Checkpoint', of: ({ phases }) => phases.checkpoint },
      { label: 'Log', of: ({ phases }) => phases.log },
    ],
    format: formatSeconds,
    alarms: ['event_loop_held'],
  },
  {
    id: 'tokens',
    title: 'Tokens',
    meaning: 'Prompt and sampled tokens of all rollouts of a step.',
    lines: [
      { label: 'Prompt', of: ({ usage }) => usage.promptTokens },
      { label: 'Sampled', of: ({ usage }) => usage.sampledTokens },
    ],
    format: formatCount,
  },
  {
    id: 'cost',
    title: 'Cost so far',
    meaning: 'Cost of all steps up to this one, in the currency of the prices of the run.',
    lines: [{ label: 'Cost', of: ({ usage }) => usage.cost }],
    format: formatCost,
    isSum: true,
  },
];

const optimizer: Curve[] = [
  {
    id: 'loss',
    title: 'Loss',
    meaning: 'Mean loss of the gradient steps.',
    lines: [{ label: 'Loss', of: ({ loss }) => loss }],
  },
  {
    id: 'gradient',
    title: 'Gradient norm',
    meaning: 'Norm of the gradient before it is clipped.',
    lines: [{ label: 'Norm', of: ({ gradientNorm }) => gradientNorm }],
  },
  {
    id: 'kl-reference',
    title: 'Distance to the reference',
    meaning: 'Mean of log p of the policy minus log p of the reference, in nats.',
    lines: [{ label: 'Distance', of: ({ klReference }) => klReference }],
  },
  {
    id: 'kl-sampler',
    title: 'KL of sampler and trainer',
    meaning: 'Estimate of KL(sampler || trainer), in nats.',
    lines: [{ label: 'KL', of: ({ klSampler }) => klSampler }],
  },
  {
    id: 'deviation',
    title: 'Spread of rewards',
    meaning: "Standard deviation of the completed rollouts' rewards.",
    lines: [{ label: 'Deviation', of: ({ rewardDeviation }) => rewardDeviation }],
    format: formatNumber,
  },
  {
    id: 'rate',
    title: 'Tokens per second',
    meaning: 'Sampled tokens per second of the rollouts.',
    lines: [{ label: 'Rate', of: ({ tokensPerSecond }) => tokensPerSecond }],
    format: formatCount,
  },
];

/** Fewer steps than this are too few to call a curve unchanged. */
const leastSteps = 3;

/** Whether every line of a curve has had one value all along. */
export function isUnchanged(reports: readonly StepReport[], { lines, isSum }: Curve): boolean {
  if (isSum || reports.length < leastSteps) return false;
  return lines.every(({ of }) => new Set(reports.map(of)).size === 1);
}

const share = (part: number, whole: number): number | null => (whole > 0 ? part / whole : null);

/** The values of a line over the reports, summed up where the curve says so. */
export function valuesOf(reports: readonly StepReport[], curve: Curve, line: number): (number | null)[] {
  const of = curve.lines[line]?.of;
  let sum = 0;
  return reports.map((report) => {
    const value = of?.(report) ?? null;
    if (!curve.isSum || value === null) return value;
    sum += value;
    return sum;
  });
}
