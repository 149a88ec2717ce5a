import { z } from 'zod';
import { json, list, optional, record, text, tokenList } from '../bounded.ts';
import { chatLimits, requestLimits } from '../limits.ts';

/** 2^63 as JSON numbers write it: the interface's bound of integers. */
export const largestInteger = 9223372036854776000;
const integer = z.number().int();
/** Most digits of a token id. */
const longestId = 20;

const argumentText = text(chatLimits.engineArgumentLength);

/** A value of `engine_xargs`. */
export const engineArgumentSchema = z.union([
  argumentText,
  z.number(),
  list(z.union([argumentText, z.number()]), chatLimits.engineArgumentLength),
]);

/** A logits processor by its registered name, alone or with its arguments. */
export const logitsProcessorSchema = z.union([
  text(requestLimits.name),
  z.strictObject({
    qualname: text(requestLimits.name),
    args: optional(list(z.unknown())),
    kwargs: optional(json()),
  }),
]);

/**
 * Fields of a chat request that shape the distribution its tokens are sampled from, and when a reply ends. They apply
 * in this order: legal tokens (grammar, `allowed_token_ids`, `min_tokens`, `bad_words`), `logits_processors`,
 * `logit_bias`, `repetition_penalty`, `frequency_penalty` and `presence_penalty`, `temperature`, `top_k`, `top_p`,
 * `min_p`.
 */
export const samplingFields = {
  temperature: optional(z.number().min(0).max(2)).describe(
    'Default 1, the model as it was trained. 0 takes the likeliest token each time.',
  ),
  top_p: optional(z.number().gt(0).max(1)).describe(
    'Default 1. Samples from the smallest set of tokens whose probability reaches this, after top_k.',
  ),
  top_k: optional(integer.min(-1)).describe(
    'Samples from the k likeliest tokens; -1 and 0 are off, as is absent.',
  ),
  min_p: optional(z.number().min(0).max(1)).describe(
    'Default 0. Samples from tokens at least this fraction as likely as the likeliest, after top_k and top_p.',
  ),
  frequency_penalty: optional(z.number().min(-2).max(2)).describe(
    'Default 0. Subtracted from the logit of a token once for each time that it stands in the reply.',
  ),
  presence_penalty: optional(z.number().min(-2).max(2)).describe(
    'Default 0. Subtracted once from the logit of every token that stands in the reply.',
  ),
  repetition_penalty: optional(z.number().min(0.01).max(100)).describe(
    'Default 1, from 0.01 to 100. Divides positive logits, and multiplies negative ones, of tokens that stand in the prompt or the reply.',
  ),
  logit_bias: optional(
    record(z.number().min(-100).max(100), { entries: chatLimits.biases, name: longestId }),
  ).describe(
    `Token ids of the vocabulary, as strings, to what is added to their logits: -100 to 100. At most ${chatLimits.biases}.`,
  ),
  allowed_token_ids: optional(tokenList(chatLimits.allowedTokens).min(1)).describe(
    'The only tokens that may be sampled, where what constrains the reply leaves a choice among them. Special tokens that a reply cannot hold are refused. Include the end token, or the reply ends at its limit.',
  ),
  bad_words: optional(list(text(chatLimits.badWordLength).min(1), chatLimits.badWords)).describe(
    `Texts that never come to stand in the reply, however they are cut into tokens. At most ${chatLimits.badWords} of at most ${chatLimits.badWordLength} characters.`,
  ),
  logits_processors: optional(list(logitsProcessorSchema, chatLimits.processors)).describe(
    `Changes to the logits by the names that the operator registered them under; others are refused. At most ${chatLimits.processors}, applied in their order.`,
  ),
  engine_xargs: optional(
    record(engineArgumentSchema, { entries: chatLimits.engineArguments, name: requestLimits.name }),
  ).describe(
    `Arguments that every one of logits_processors is given; refused where there is none. At most ${chatLimits.engineArguments}.`,
  ),
  seed: optional(z.number().min(-largestInteger).max(largestInteger)).describe(
    'A whole number. The same request with the same seed has the same choices; choice i draws from seed + i, of which the lowest 64 bits count. JSON writers that know no whole numbers beyond 2^53, as those of JavaScript, round it. Beam search draws nothing: its choices are the same with every seed.',
  ),
  n: optional(integer.min(1).max(chatLimits.choices)).describe(
    `Choices: default 1, at most ${chatLimits.choices}. With use_beam_search the number of beams: so many replies are returned, where a constraint leaves so many.`,
  ),
  use_beam_search: optional(z.boolean()).describe(
    'Default false. True: the n likeliest replies that a beam of width n finds, best first, instead of samples. The score is the sum of the log-probabilities of the tokens, the end token included, divided by (their number without it) ^ length_penalty; the log-probabilities are those that sampling would draw from, temperature and all. Such choices cannot be trained on. Streamed, a choice comes whole, at the end.',
  ),
  length_penalty: optional(z.number().min(-10).max(10)).describe(
    'Default 1, from -10 to 10. Greater values favour longer replies. Another value than 1 needs use_beam_search.',
  ),
  max_tokens: optional(integer.min(1))
    .describe('The older name of max_completion_tokens, which wins over it.')
    .meta({
      deprecated: true,
    }),
  max_completion_tokens: optional(integer.min(1)).describe(
    'Most tokens of the reply, reasoning and end token included. Default, and at most, what the context leaves.',
  ),
  min_tokens: optional(integer.min(0)).describe(
    "Default 0. Neither the end token, nor stop tokens, nor stop strings end the reply before it has so many tokens; its constraint may. At most the reply's limit of tokens.",
  ),
  ignore_eos: optional(z.boolean()).describe(
    'Default false. True: the end token does not end the reply, which then goes on to a stop or to its limit; under a constraint, until the constraint leaves nothing but the end.',
  ),
  stop: optional(
    z.union([
      text(chatLimits.stopStringLength).min(1),
      list(text(chatLimits.stopStringLength).min(1), chatLimits.stopStrings),
    ]),
  ).describe(
    `Texts that end the reply: one or a list, at most ${chatLimits.stopStrings} of at most ${chatLimits.stopStringLength} characters. They are looked for in everything the model writes, reasoning and calls too, special tokens left out.`,
  ),
  stop_token_ids: optional(tokenList(chatLimits.stopTokens)).describe(
    `Tokens that end the reply; at most ${chatLimits.stopTokens}.`,
  ),
};
