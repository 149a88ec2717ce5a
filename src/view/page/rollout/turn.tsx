import type { ComponentChildren } from 'preact';
import type { ToolUse, TurnView } from '../../api.ts';
import { counted, formatSigned } from '../parts/format.ts';
import { oneLine } from '../parts/visible-text.ts';
import { ModelText } from './model-text.tsx';
import type { Parting } from './parting.ts';
import './rollout.css';

const roles: Record<string, string> = { developer: 'system', function: 'tool' };

/** One turn: role and result in the margin, the text next to them. */
export function Turn({
  turn,
  parting,
  tokensHref,
}: {
  turn: TurnView;
  /** Where other conversations part from it, within this turn. */
  parting?: Parting | undefined;
  /** Address of its tokens. */
  tokensHref?: string | undefined;
}) {
  const { role, text, reasoning, tools = [], tool, call, tokens, reward, finish, model } = turn;
  const isSampled = call !== undefined;
  const partsAt = (field: Parting['field']) => (parting?.field === field ? parting.characters : undefined);
  const cut = finish === 'length' ? 'cut off: out of tokens' : undefined;
  return (
    <li class="turn" data-role={roles[role] ?? role} data-sampled={isSampled ? '' : undefined}>
      <div class="turn-side">
        <span class="turn-role">{roles[role] ?? role}</span>
        {tool && <code>{oneLine(tool, 60)}</code>}
        {model && <span class="tag warn">{oneLine(model, 60)}</span>}
        {tokens !== undefined &&
          (tokensHref ? (
            <a href={tokensHref}>{counted(tokens, 'token')}</a>
          ) : (
            <span class="muted">{counted(tokens, 'token')}</span>
          ))}
        {reward !== undefined && <Reward value={reward} />}
        {cut && <span class="tag warn">{cut}</span>}
      </div>
      <div class="turn-body">
        {reasoning && (
          <details class="reasoning" open={reasoning.length < 1200 || parting?.field === 'reasoning'}>
            <summary>Reasoning, {counted(reasoning.length, 'character')}</summary>
            <ModelText text={reasoning} partsAt={partsAt('reasoning')} />
          </details>
        )}
        {text !== '' && <ModelText text={text} partsAt={partsAt('text')} />}
        {text === '' && !reasoning && tools.length === 0 && <span class="muted">Empty</span>}
        {tools.map((use, at) => (
          <ToolCall key={use.id ?? at} use={use} />
        ))}
      </div>
    </li>
  );
}

/** The reward of a turn. */
function Reward({ value }: { value: number }) {
  return (
    <span class={value < 0 ? 'tag bad' : 'tag good'} title="Reward of this turn">
      {formatSigned(value)}
    </span>
  );
}

function ToolCall({ use }: { use: ToolUse }) {
  const pretty = prettyJson(use.arguments);
  return (
    <div class="tool-call">
      <div class="tool-name">
        <span class="muted">calls </span>
        <code>{oneLine(use.name, 80)}</code>
        {pretty === undefined && use.arguments !== '' && <span class="tag warn">arguments are no JSON</span>}
      </div>
      {use.arguments !== '' && use.arguments !== '{}' && (
        <div class="mono">
          <ModelText text={pretty ?? use.arguments} limit={2000} />
        </div>
      )}
    </div>
  );
}

/** The JSON indented; undefined if it is none. Short values stay on one line. */
function prettyJson(text: string): string | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return text.length <= 60 ? text : JSON.stringify(value, null, 2);
  } catch {
    return undefined;
  }
}

/** Turns in order; the numbers of the turns begin at `first`. */
export function Turns({ label, children }: { label: string; children: ComponentChildren }) {
  return (
    <ol class="turns" aria-label={label}>
      {children}
    </ol>
  );
}
