import type { Choice } from '../../contract/index.ts';
import type { Location } from '../../language/error.ts';
import { tokenIdsHash } from '../../language/tokenizer/tokenizer.ts';
import { invalidField } from '../errors.ts';

/**
 * A choice with its token ids, sampling and prompt where its fields have them. A client that put it together from a
 * stream may have kept them in the entries of its log-probabilities alone; so may one that asked for ids in the place
 * of the tokens' texts.
 * @throws RequestValidationError for token ids that are not those of one reply as it was sampled.
 */
export function wholeChoice(choice: Choice, at: Location): Choice {
  const entries = choice.logprobs?.content ?? [];
  const ids = entries.flatMap(({ token_id: id }) => id ?? []);
  const isStreamed = ids.length > 0 && ids.length === entries.length;
  const whole = isStreamed
    ? { ...choice, ...carried(entries, choice, at), token_ids: ids }
    : { ...choice, token_ids: choice.token_ids ?? idsInTexts(entries) };
  const named = whole.sampling?.reply;
  if (named && whole.token_ids && tokenIdsHash(whole.token_ids) !== named)
    throw invalidField(
      [...at, 'token_ids'],
      'are not the ids that were sampled (sampling.reply names these); send the choice back as it came, with the ids of all chunks where it was streamed',
      whole.token_ids,
    );
  return whole;
}

type Entries = NonNullable<NonNullable<Choice['logprobs']>['content']>;

function carried(
  entries: Entries,
  choice: Choice,
  at: Location,
): Pick<Choice, 'sampling' | 'prompt_token_ids'> {
  const place = [...at, 'logprobs', 'content'];
  const other = entries.findIndex((entry, index) => index > 0 && entry.choice);
  if (other > 0)
    throw invalidField(
      [...place, other],
      'begins another choice of the same stream, so that these are the tokens of more than one reply; stream one choice a request (n: 1), or ask without stream',
      entries[other],
    );
  const first = entries[0]?.choice;
  const sampling = choice.sampling ?? first?.sampling;
  if (!sampling)
    throw invalidField(
      [...place, 0],
      'is not the first token of a reply, which has `choice` beside its token_id; send the entries of all chunks, from the first on',
      entries[0],
    );
  return { sampling, prompt_token_ids: choice.prompt_token_ids ?? first?.prompt_token_ids };
}

/** Ids that `return_tokens_as_token_ids` wrote in the place of the tokens' texts; undefined where it did not. */
function idsInTexts(entries: Entries): number[] | undefined {
  const ids = entries.map(({ token }) => /^token_id:(\d+)$/.exec(token)?.[1]);
  return ids.length > 0 && ids.every((id) => id !== undefined) ? ids.map(Number) : undefined;
}
