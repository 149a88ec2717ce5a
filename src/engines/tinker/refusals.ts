import { plainSampling, type SamplingParameters } from '../../learning/index.ts';
import { canonicalJson } from '../../util/json.ts';
import { EngineError } from '../engine.ts';

/** The parameters that need more of the distribution than the server tells, with their names in a request. */
const names: Readonly<Partial<Record<keyof SamplingParameters, string>>> = {
  topP: 'top_p',
  topK: 'top_k',
  minP: 'min_p',
  repetitionPenalty: 'repetition_penalty',
  frequencyPenalty: 'frequency_penalty',
  presencePenalty: 'presence_penalty',
  logitBias: 'logit_bias',
  allowedTokens: 'allowed_token_ids',
  bannedTexts: 'bad_words',
  minTokens: 'min_tokens',
  processors: 'logits_processors',
};

export const unsupported = (option: string, remedy: string): EngineError =>
  new EngineError('unsupported_option', `${option} is not supported by the engine tinker: ${remedy}`);

export const constraintRefused = (): EngineError =>
  unsupported(
    'a constraint (response_format, structured_outputs, tool_choice "required" or a function, strict tools, parallel_tool_calls false, reasoning_effort)',
    'the server samples free text only; ask for the form in the prompt, and check the reply',
  );

/**
 * Refuses what the server cannot sample or train: it tells the log-probabilities of the taken tokens, under the model's
 * own distribution at temperature 1. A temperature of 0 is supported, since its log-probabilities are those at 1.
 */
export function refuseSampling(sampling: SamplingParameters, hasConstraint: boolean): void {
  if (hasConstraint) throw constraintRefused();
  if (sampling.temperature !== 0 && sampling.temperature !== 1)
    throw unsupported(
      `temperature ${sampling.temperature}`,
      'its log-probabilities are those at temperature 1; use 1, or 0 for the likeliest token',
    );
  for (const [parameter, name] of Object.entries(names) as [keyof SamplingParameters, string][])
    if (canonicalJson(sampling[parameter]) !== canonicalJson(plainSampling[parameter]))
      throw unsupported(name, 'the server samples from the whole distribution; leave it out');
}
