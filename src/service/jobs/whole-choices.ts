import type { Choice, ParsedTrajectory } from '../../contract/index.ts';
import { type Location, tokenIdsHash } from '../../language/basics.ts';
import { append } from '../../util/extremes.ts';
import { invalidField } from '../errors.ts';

export type ParsedHistory = Pick<ParsedTrajectory, 'messages_and_choices' | 'tools'>;

/** The conversations of a trajectory, each with its path in the request. */
export function historiesOf(
  trajectory: ParsedTrajectory,
  location: Location,
): { history: ParsedHistory; path: Location }[] {
  return [
    { history: trajectory, path: location },
    ...(trajectory.additional_histories ?? []).map((history, index) => ({
      history,
      path: [...location, 'additional_histories', index],
    })),
  ];
}

/** The first tokens of a list, which the prompts of a history may share. */
export interface Prompt {
  tokens: readonly number[];
  length: number;
}

/**
 * The entries of a history with their paths. A choice is whole, and has its prompt if that is known: from
 * `prompt_token_ids`, or from what it adds to the prompt and the reply of the choice before.
 * @throws RequestValidationError when a choice is none that was sampled, or adds to a prompt that is not known.
 */
export function* entriesOf({ messages_and_choices: entries }: ParsedHistory, path: Location) {
  let before: { prompt: Prompt; reply: readonly number[] } | null = null;
  /** The tokens so far of the choices that add to each other. */
  let shared: number[] = [];
  for (const [index, item] of entries.entries()) {
    const at = [...path, 'messages_and_choices', index];
    if (!('message' in item)) {
      yield { item, at, prompt: null };
      continue;
    }
    const choice = wholeChoice(item, at);
    const { prompt_token_ids: own, added_prompt_token_ids: added, token_ids: reply } = choice;
    let prompt: Prompt | null = own ? { tokens: own, length: own.length } : null;
    if (added) {
      const field = [...at, 'added_prompt_token_ids'];
      if (own) throw invalidField(field, 'is another form of prompt_token_ids; send only one of them', added);
      if (!before)
        throw invalidField(
          field,
          'adds to a choice before it whose prompt and token_ids are known, and there is none; send prompt_token_ids',
          added,
        );
      if (before.prompt.tokens !== shared) shared = [...before.prompt.tokens];
      append(shared, before.reply);
      append(shared, added);
      prompt = { tokens: shared, length: shared.length };
    }
    before = prompt && reply ? { prompt, reply } : null;
    yield { item: choice, at, prompt };
  }
}

/** A copy of the tokens of a prompt. */
export const tokensOf = ({ tokens, length }: Prompt): number[] => tokens.slice(0, length);

/**
 * Completes a choice whose token ids, sampling and prompt are only in the entries of its log-probabilities. That
 * happens when a client assembled the choice from a stream, or requested token ids in place of the tokens' texts.
 * @throws RequestValidationError when the token ids are not one sampled reply.
 */
function wholeChoice(choice: Choice, path: Location): Choice {
  const entries = choice.logprobs?.content ?? [];
  const ids = entries.flatMap(({ token_id: id }) => id ?? []);
  const isStreamed = ids.length > 0 && ids.length === entries.length;
  const whole = isStreamed
    ? { ...choice, ...fromStreamEntries(entries, choice, path), token_ids: ids }
    : { ...choice, token_ids: choice.token_ids ?? idsInTexts(entries) };
  const { token_logprobs: logprobs } = choice;
  if (logprobs && choice.logprobs?.content)
    throw invalidField(
      [...path, 'token_logprobs'],
      'is another form of logprobs; send only one of them',
      logprobs,
    );
  const named = whole.sampling?.reply;
  if (named && whole.token_ids && tokenIdsHash(whole.token_ids) !== named)
    throw invalidField(
      [...path, 'token_ids'],
      'are not the sampled ids, which sampling.reply names; send the choice back unchanged, with the ids of all chunks if it was streamed',
      whole.token_ids,
    );
  return whole;
}

type Entries = NonNullable<NonNullable<Choice['logprobs']>['content']>;

function fromStreamEntries(
  entries: Entries,
  choice: Choice,
  path: Location,
): Pick<Choice, 'sampling' | 'prompt_token_ids'> {
  const content = [...path, 'logprobs', 'content'];
  const other = entries.findIndex((entry, index) => index > 0 && entry.choice);
  if (other > 0)
    throw invalidField(
      [...content, other],
      'begins another choice of the same stream, so these are the tokens of several replies; stream one choice per request (n: 1), or request it without stream',
      entries[other],
    );
  const first = entries[0]?.choice;
  const sampling = choice.sampling ?? first?.sampling;
  if (!sampling)
    throw invalidField(
      [...content, 0],
      'is not the first token of a reply, whose entry has a `choice`; send the entries of all chunks, beginning with the first',
      entries[0],
    );
  return { sampling, prompt_token_ids: choice.prompt_token_ids ?? first?.prompt_token_ids };
}

/** The ids that `return_tokens_as_token_ids` wrote in place of the tokens' texts; undefined if there are none. */
function idsInTexts(entries: Entries): number[] | undefined {
  const ids = entries.map(({ token }) => /^token_id:(\d+)$/.exec(token)?.[1]);
  return ids.length > 0 && ids.every((id) => id !== undefined) ? ids.map(Number) : undefined;
}
