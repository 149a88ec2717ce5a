import type { Choice, ParsedTrajectory } from '../../contract/index.ts';
import type { BaseModel, Engine } from '../../engines/engine.ts';
import { choiceToTurn, type Location, tokenIdsHash } from '../../language/basics.ts';
import { TimeSlices } from '../../util/time-slices.ts';
import { invalidField } from '../errors.ts';
import type { KnownConstraints } from '../inference/constraints.ts';
import { rangeOf, refuseForeignTokens } from '../inference/model-checks.ts';
import { entriesOf, historiesOf, type Prompt, tokensOf } from './whole-choices.ts';

export interface ChoiceContext {
  engine: Pick<Engine, 'logitsProcessors'>;
  /** The constraints that the request's key may use. Only their presence counts. */
  constraints: KnownConstraints<unknown>;
  base: BaseModel;
  /** Whether a choice may have what it adds to the choice before, in place of its prompt. Default false. */
  takesAdded?: boolean;
}

/** Refuses choices that cannot be trained on, before the job is accepted. The error names the field. */
export async function checkTrajectory(
  trajectory: ParsedTrajectory,
  location: Location,
  context: ChoiceContext,
): Promise<void> {
  const { vocabularySize } = context.base;
  const slices = new TimeSlices();
  for (const { history, path } of historiesOf(trajectory, location))
    for (const { item, at, prompt } of entriesOf(history, path)) {
      if (slices.over) await slices.pause();
      if ('message' in item) await checkChoice(item, prompt, at, context);
      else if ('token_ids' in item) refuseForeignTokens(item.token_ids, vocabularySize, [...at, 'token_ids']);
    }
}

/** The logarithm of a probability is at most 0; this allows for rounding. */
const maxLogprob = 1e-6;

async function checkChoice(
  choice: Choice,
  prompt: Prompt | null,
  path: Location,
  context: ChoiceContext,
): Promise<void> {
  const { base, constraints } = context;
  const { tokenIds } = choiceToTurn(choice, path);
  refuseForeignTokens(tokenIds, base.vocabularySize, [...path, 'token_ids']);
  checkLogprobs(choice, tokenIds?.length ?? 0, path);
  checkPrompt(choice, prompt, path, context);
  checkSampling(choice, [...path, 'sampling'], context);
  await findConstraint(choice, path, constraints);
}

/** The log-probabilities of a choice, in whichever form it has them; undefined without any. */
export const logprobsOf = ({ logprobs, token_logprobs }: Choice): readonly number[] | undefined =>
  token_logprobs ?? logprobs?.content?.map(({ logprob }) => logprob);

function checkLogprobs(choice: Choice, tokens: number, path: Location): void {
  const logprobs = logprobsOf(choice);
  if (!logprobs) return;
  const isList = choice.token_logprobs != null;
  const at = isList ? [...path, 'token_logprobs'] : [...path, 'logprobs', 'content'];
  if (logprobs.length !== tokens)
    throw invalidField(
      at,
      `has ${logprobs.length} entries for ${tokens} token ids; there must be one for each`,
      choice.token_logprobs ?? choice.logprobs?.content,
    );
  const index = logprobs.findIndex((logprob) => logprob > maxLogprob);
  if (index !== -1)
    throw invalidField(
      isList ? [...at, index] : [...at, index, 'logprob'],
      'is above 0, which no log-probability can be; send the choice back unchanged',
      logprobs[index],
    );
}

function checkPrompt(
  { sampling, token_ids: reply, prompt_token_ids: own, added_prompt_token_ids: added }: Choice,
  prompt: Prompt | null,
  at: Location,
  { base, takesAdded }: ChoiceContext,
): void {
  const path = [...at, added ? 'added_prompt_token_ids' : 'prompt_token_ids'];
  if (!prompt) {
    if (!sampling?.own_prompt) return;
    throw invalidField(
      path,
      'the choice was sampled after its own prompt (sampling.own_prompt), which its messages do not contain; request it with return_token_ids: true when sampling, and send the choice back unchanged',
      sampling,
    );
  }
  if (added && !takesAdded)
    throw invalidField(path, 'only a group that is sent by itself may have it; send prompt_token_ids', added);
  if (prompt.length === 0) throw invalidField(path, 'a prompt has at least one token', own);
  refuseForeignTokens(added ?? own ?? [], base.vocabularySize, path);
  const length = prompt.length + (reply?.length ?? 0);
  if (length > base.contextLength)
    throw invalidField(
      path,
      `prompt and reply have ${length} tokens; the model's context is ${base.contextLength}`,
      added ?? own,
    );
  if (added && sampling?.prompt && sampling.prompt !== tokenIdsHash(tokensOf(prompt)))
    throw invalidField(
      path,
      'does not give the prompt that the choice was sampled after, which sampling.prompt names; send the choices of a conversation in their order, or with their prompt_token_ids',
      added,
    );
}

function checkSampling({ sampling }: Choice, path: Location, { base, engine }: ChoiceContext): void {
  if (!sampling) return;
  if (sampling.beam_search)
    throw invalidField(
      [...path, 'beam_search'],
      'replies of beam search are not samples of the policy and cannot be trained on; sample without use_beam_search',
      true,
    );
  if (sampling.temperature < 0)
    throw invalidField([...path, 'temperature'], 'is at least 0', sampling.temperature);
  if ((sampling.repetition_penalty ?? 1) <= 0)
    throw invalidField([...path, 'repetition_penalty'], 'is above 0', sampling.repetition_penalty);
  refuseForeignTokens(sampling.allowed_token_ids ?? undefined, base.vocabularySize, [
    ...path,
    'allowed_token_ids',
  ]);
  refuseForeignTokens(sampling.stop_token_ids ?? undefined, base.vocabularySize, [...path, 'stop_token_ids']);
  for (const token of Object.keys(sampling.logit_bias ?? {}))
    if (!/^(?:0|[1-9]\d*)$/.test(token) || Number(token) >= base.vocabularySize)
      throw invalidField([...path, 'logit_bias', token], rangeOf(base.vocabularySize), token);
  for (const [index, processor] of (sampling.logits_processors ?? []).entries()) {
    const name = typeof processor === 'string' ? processor : processor.qualname;
    if (!engine.logitsProcessors.includes(name))
      throw invalidField(
        [...path, 'logits_processors', index],
        'this service has no logits processor of this name; send the choices of this service back unchanged',
        name,
      );
  }
}

/** Finds the constraint that a choice was sampled under. Rejects when nothing was ever sampled under it. */
export function findConstraint<Found>(
  choice: Choice,
  path: Location,
  constraints: KnownConstraints<Found>,
): Promise<Found | null> {
  return constraintOf(choice.sampling?.constraint, [...path, 'sampling', 'constraint'], constraints);
}

/** The constraint with this hash; null without one. Rejects when nothing was ever sampled under it. */
export async function constraintOf<Found>(
  hash: string | null | undefined,
  path: Location,
  constraints: KnownConstraints<Found>,
): Promise<Found | null> {
  if (hash === undefined || hash === null) return null;
  const constraint = await constraints.find(hash);
  if (!constraint)
    throw invalidField(
      path,
      'unknown constraint: nothing was sampled under it; send the choices of this service back unchanged',
      hash,
    );
  return constraint;
}
