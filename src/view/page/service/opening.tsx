import type { ServiceOpening } from '../../api.ts';
import { useApi } from '../api-client.ts';
import { Turn, Turns } from '../rollout/turn.tsx';
import { addressOf } from '../router.ts';

type Opening = NonNullable<ServiceOpening['opening']>;

const openingPath = (model: string): string => `service/openings/${encodeURIComponent(model)}`;

/** The opening of the first of two models that has one, with the model; undefined until it is known. */
export function useOpening(
  left: string,
  right: string,
): { opening: Opening; model: string } | null | undefined {
  const [first, second] = [left, right].map((model) =>
    useApi<ServiceOpening>(model === '' ? null : openingPath(model)),
  );
  if (left !== '' && !first?.data && !first?.error) return undefined;
  if (first?.data?.opening) return { opening: first.data.opening, model: left };
  if (right !== '' && !second?.data && !second?.error) return undefined;
  return second?.data?.opening ? { opening: second.data.opening, model: right } : null;
}

/** Says what a chat sends besides the user's messages, or that it sends nothing. */
export function OpeningNote({
  opening,
  isSent,
  onSend,
}: {
  opening: Opening | null;
  isSent: boolean;
  onSend: (isSent: boolean) => void;
}) {
  if (!opening)
    return (
      <p class="chat-note tag warn">
        No run here trained these models, so the chat sends no instructions and no tools. A model that was
        trained with them answers as if it had never been trained: name the folder of its runs to `martingale
        view`.
      </p>
    );
  const { run, title, instructions, parts } = opening;
  return (
    <div class="chat-note">
      <label>
        <input
          type="checkbox"
          checked={isSent}
          onChange={({ currentTarget }) => onSend(currentTarget.checked)}
        />{' '}
        Ask as in training
      </label>{' '}
      <span class="muted">
        {parts.length > 0 ? `sends ${parts.join(', ')}` : 'the messages alone'}, as the run{' '}
        <a href={addressOf(['runs', run])}>{title}</a> did
      </span>
      {isSent && instructions.length > 0 && (
        <details>
          <summary class="muted">Instructions</summary>
          <Turns label="Instructions">
            {instructions.map((text, at) => (
              <Turn key={at} turn={{ role: 'system', text }} />
            ))}
          </Turns>
        </details>
      )}
    </div>
  );
}
