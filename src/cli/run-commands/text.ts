import { printable, printableLines } from '../../contract/index.ts';
import type { RolloutSummary, TurnView } from '../../view/index.ts';

/** Numbers of at most four digits that count; a dash for none. */
export const shortNumber = (value: number | null | undefined): string =>
  value === null || value === undefined ? '-' : String(Number(value.toPrecision(4)));

export const percentage = (share: number | null): string =>
  share === null ? '-' : `${Math.round(share * 1000) / 10}%`;

/** `3 min ago`: how long ago an ISO time was. */
export function age(time: string, nowMs = Date.now()): string {
  const seconds = Math.max(0, (nowMs - Date.parse(time)) / 1000);
  if (seconds < 60) return 'just now';
  if (seconds < 3600) return `${Math.round(seconds / 60)} min ago`;
  if (seconds < 86_400) return `${Math.round(seconds / 3600)} h ago`;
  return `${Math.round(seconds / 86_400)} d ago`;
}

const maxText = 2000;

/** A conversation as lines. What a model wrote cannot command the terminal. */
export function turnLines(turns: readonly TurnView[]): string[] {
  return turns.flatMap(({ role, text, reasoning, tools = [], tool }) => [
    ...(reasoning ? block('thinks', reasoning) : []),
    ...(text === '' && tools.length > 0 ? [] : block(tool === undefined ? role : `${role} ${tool}`, text)),
    ...tools.flatMap((use) => block('calls', `${use.name} ${use.arguments}`)),
  ]);
}

function block(title: string, text: string): string[] {
  const shown = text.length > maxText ? `${text.slice(0, maxText)}… (${text.length} characters)` : text;
  const [first = '', ...rest] = printableLines(shown).split('\n');
  return [`  ${printable(title).padEnd(10)} ${first}`, ...rest.map((line) => `  ${' '.repeat(10)} ${line}`)];
}

/** The head of a rollout: `rollout 3: reward 0.25 (tool 1, order 0), advantage -0.56, 36 tokens`. */
export function rolloutHead({
  rollout,
  status,
  reward,
  failure,
  metrics,
  advantage,
  sampledTokens,
}: RolloutSummary): string {
  const parts = Object.entries(metrics).map(([name, value]) => `${printable(name)} ${shortNumber(value)}`);
  const played = failure === null ? `reward ${shortNumber(reward)}` : `failed: ${printable(failure)}`;
  const what = status === 'not_played' ? 'not played' : played;
  return [
    `rollout ${rollout}: ${what}${parts.length > 0 ? ` (${parts.join(', ')})` : ''}`,
    ...(advantage === null ? [] : [`advantage ${shortNumber(advantage)}`]),
    `${sampledTokens} tokens`,
  ].join(', ');
}
