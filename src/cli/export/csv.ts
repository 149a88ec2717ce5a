import { inOneLine, titleOfScenario } from '../../environment/index.ts';
import type { GroupRecord } from '../../rollout/index.ts';
import { sumOf } from '../../util/sums.ts';
import { keyOfGroup } from '../../view/index.ts';

const fixed = [
  'groups_of',
  'group',
  'scenario_key',
  'title',
  'scenario',
  'seat',
  'rollout',
  'attempt',
  'status',
  'failure',
  'reward',
  'milliseconds',
  'calls',
  'tokens',
];

/** A line for each rollout under a line of titles (RFC 4180); a column for each metric. */
export class CsvTable {
  readonly #rows: { cells: unknown[]; metrics: Readonly<Record<string, unknown>> }[] = [];
  readonly #metrics = new Set<string>();

  add({ name, record }: { name: string; record: GroupRecord }): void {
    for (const at of record.rollouts.keys()) {
      const row = rowOf(name, record, at);
      for (const metric of Object.keys(row.metrics)) this.#metrics.add(metric);
      this.#rows.push(row);
    }
  }

  get lines(): string[] {
    const names = [...this.#metrics].sort();
    const rows = this.#rows.map(({ cells, metrics }) => [...cells, ...names.map((name) => metrics[name])]);
    return [[...fixed, ...names], ...rows].map((cells) => `${cells.map(toCsv).join(',')}\r\n`);
  }
}

function rowOf(name: string, record: GroupRecord, at: number) {
  const rollout = record.rollouts[at];
  if (!rollout) throw new RangeError(`the group has no rollout ${at}`);
  const isCompleted = rollout.status === 'completed';
  const failure = isCompleted ? undefined : record.failures[rollout.failure];
  const trajectory = isCompleted ? record.trajectories[rollout.trajectory] : failure?.trajectory;
  const histories = trajectory ? [trajectory, ...(trajectory.additional_histories ?? [])] : [];
  const tokens = sumOf(
    histories.flatMap(({ messages_and_choices: entries }) => entries),
    (entry) => ('message' in entry ? (entry.token_ids?.length ?? 0) : 0),
  );
  const cells = [
    ...[
      name,
      record.group,
      keyOfGroup(record.scenario, record.group),
      titleOfScenario(record.scenario, record.title),
      inOneLine(record.scenario),
      record.seat?.name,
      at,
      rollout.attempt,
      rollout.status,
      failure?.code,
    ],
    ...[
      isCompleted ? rollout.reward : undefined,
      Math.round(rollout.duration_ms),
      trajectory?.record.calls.length,
      tokens,
    ],
  ];
  return { cells, metrics: trajectory?.metrics ?? {} };
}

/** A text that a table program would take for a formula gets a quote before it. */
function toCsv(value: unknown): string {
  const text = value === null || value === undefined ? '' : String(value);
  const safe = typeof value === 'string' && /^[=+\-@\t]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
