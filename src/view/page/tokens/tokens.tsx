import { useMemo, useState } from 'preact/hooks';
import { largestOf } from '../../../util/extremes.ts';
import type { HistoryDetail, SampledReply, TokenRow } from '../../api.ts';
import { counted, formatNumber, formatShare, formatSigned } from '../parts/format.ts';
import { Nothing } from '../parts/states.tsx';
import { oneLine } from '../parts/visible-text.ts';
import { type PanelProps, setQuery } from '../router.ts';
import {
  entropyLevel,
  probabilityLevel,
  probabilityShades,
  ratioLevel,
  type Shading,
  shadings,
  signedLevel,
} from './shades.ts';
import { type TokenCell, TokenStrip } from './token-strip.tsx';
import './tokens.css';

/** A sampled token and the reply that it belongs to. */
interface Place {
  token: TokenRow;
  reply: SampledReply;
  /** The first of its reply. */
  isFirst: boolean;
}

/** The sampled tokens of a conversation, shaded by what they tell: faults of a template or a mask become visible. */
export function Tokens({
  history,
  index,
  query,
}: {
  history: HistoryDetail;
  index: number;
  query: PanelProps['query'];
}) {
  const places = useMemo(() => placesOf(history), [history]);
  const [hovered, setHovered] = useState<number | null>(null);
  const shading = shadings.find((one) => one === query.shade) ?? 'probability';
  const cells = useMemo(() => cellsOf(places, history, shading), [places, history, shading]);
  const [ownHistory, ownToken] = (query.token ?? '').split('.').map(Number);
  // One conversation has the cursor: the first, until a token of another is chosen.
  const isChosen = ownHistory === index || (query.token === undefined && index === 0);
  const cursor = isChosen ? Math.max(0, Math.min(ownToken || 0, places.length - 1)) : -1;
  if (places.length === 0)
    return <Nothing title="No tokens">An external model answered: it returns no token ids.</Nothing>;
  const shown = places[hovered ?? cursor];
  const known: Record<Shading, boolean> = {
    probability: true,
    entropy: places.some(({ token }) => token.entropy !== null),
    advantage: true,
    ratio: places.some(({ token }) => token.trainedLogprob !== null),
  };
  return (
    <>
      <div class="token-bar">
        <div class="buttons">
          {shadings
            .filter((one) => known[one])
            .map((one) => (
              <button
                key={one}
                type="button"
                class="button"
                aria-pressed={one === shading}
                onClick={() => setQuery({ shade: one }, { replace: true })}
              >
                {shadingNames[one]}
              </button>
            ))}
        </div>
        <Legend shading={shading} hasClipped={places.some(({ token }) => token.clipped)} />
      </div>
      <TokenStrip
        cells={cells}
        id={`tokens-${index}`}
        label="Sampled tokens; arrows move between them"
        cursor={cursor}
        onCursor={(at) => setQuery({ token: `${index}.${at}` }, { replace: true })}
        onHover={setHovered}
      />
      {shown && <Numbers place={shown} />}
    </>
  );
}

const shadingNames: Record<Shading, string> = {
  probability: 'Probability',
  entropy: 'Entropy',
  advantage: 'Advantage',
  ratio: 'Ratio',
};

const placesOf = ({ replies }: HistoryDetail): Place[] =>
  replies.flatMap((reply) => reply.tokens.map((token, at) => ({ token, reply, isFirst: at === 0 })));

function cellsOf(places: readonly Place[], history: HistoryDetail, shading: Shading): TokenCell[] {
  const largest = largestOf(
    history.replies.map(({ advantage }) => Math.abs(advantage ?? 0)),
    0,
  );
  return places.map(({ token, reply, isFirst }) => ({
    text: token.text,
    look: [
      reply.trains ? 'trained' : 'masked',
      // One choice alone was allowed, so it teaches nothing.
      token.logprob === 0 && reply.constraint !== null ? 'forced' : '',
      token.clipped ? 'clipped' : '',
      shadeOf(token, reply, shading, largest),
    ].join(' '),
    heading: isFirst ? headingOf(reply, history) : undefined,
  }));
}

function shadeOf(token: TokenRow, reply: SampledReply, shading: Shading, largest: number): string {
  if (shading === 'probability') return `shade-${probabilityLevel(token.logprob)}`;
  if (shading === 'entropy') return `shade-${entropyLevel(token.entropy)}`;
  const level = shading === 'ratio' ? ratioLevel(logRatioOf(token)) : signedLevel(reply.advantage, largest);
  return level === 0 ? '' : level > 0 ? `plus-${level}` : `minus-${-level}`;
}

/** Log of how much more likely the token was when the job trained on it than when it was sampled. */
const logRatioOf = ({ logprob, trainedLogprob }: TokenRow): number | null =>
  logprob === null || trainedLogprob === null ? null : trainedLogprob - logprob;

/** `Call 1, 212 prompt tokens, after user: where is my order`. */
function headingOf({ call, why, promptTokens }: SampledReply, { turns }: HistoryDetail): string {
  const at = turns.findIndex((turn) => turn.call === call);
  const before = turns[at - 1];
  const after = before ? `, after ${before.role}: ${oneLine(before.text, 80)}` : '';
  const prompt = promptTokens > 0 ? `, ${counted(promptTokens, 'prompt token')}` : '';
  return `Call ${call}${prompt}${after}${why === null ? '' : ` (not trained: ${why})`}`;
}

function Legend({ shading, hasClipped }: { shading: Shading; hasClipped: boolean }) {
  return (
    <ul class="legend" aria-label="What the shades mean">
      {shading === 'probability' &&
        probabilityShades.map(({ level, label }) => (
          <li key={level}>
            <i class={`swatch shade-${level}`} /> {label}
          </li>
        ))}
      {shading === 'entropy' &&
        [0, 1, 2, 3, 4, 5].map((level) => (
          <li key={level}>
            <i class={`swatch shade-${level}`} />{' '}
            {['< 0.1', '≥ 0.1', '≥ 0.5', '≥ 1', '≥ 2', '≥ 3 nats'][level]}
          </li>
        ))}
      {(shading === 'advantage' || shading === 'ratio') && (
        <>
          <li>
            <i class="swatch plus-2" />{' '}
            {shading === 'advantage' ? 'more likely after training' : 'likelier when it trained'}
          </li>
          <li>
            <i class="swatch minus-2" /> less likely
          </li>
        </>
      )}
      {hasClipped && (
        <li>
          <span class="token clipped">clipped</span> the loss has a bound
        </li>
      )}
      <li>
        <span class="token forced">forced</span> the only choice
      </li>
      <li>
        <span class="token masked">masked</span> not trained
      </li>
    </ul>
  );
}

function Numbers({ place: { token, reply } }: { place: Place }) {
  const { logprob, entropy, id, text } = token;
  const logRatio = logRatioOf(token);
  const figures: readonly (readonly [string, string])[] = [
    ['Id', String(id)],
    ['Log-probability', formatNumber(logprob)],
    ['Probability', logprob === null ? '–' : formatShare(Math.exp(logprob))],
    ...(logRatio === null
      ? []
      : [['Ratio', `${formatNumber(Math.exp(logRatio))}${token.clipped ? ', clipped' : ''}`] as const]),
    ...(entropy === null ? [] : [['Entropy', `${formatNumber(entropy)} nats`] as const]),
    ['Advantage', formatSigned(reply.advantage)],
    ['Trains', reply.trains ? 'yes' : (reply.why ?? 'no')],
    ...(reply.temperature === null ? [] : [['Temperature', formatNumber(reply.temperature)] as const]),
  ];
  return (
    <dl class="token-numbers" aria-live="polite">
      <div>
        <dt>Token</dt>
        <dd class="mono">{oneLine(text, 40) || '∅'}</dd>
      </div>
      {figures.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
