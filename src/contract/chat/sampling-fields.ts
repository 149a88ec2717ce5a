import { z } from 'zod';
import { json, list, optional, record, text, tokenList } from '../bounded.ts';
import { chatLimits, requestLimits } from '../limits.ts';

/** 2^63 as JSON numbers write it: the interface's bound of integers. */
const maxInteger = 9223372036854776000;

/** A whole number up to the interface's bound. `int()` refuses numbers beyond 2^53. */
export const wideInteger = (minimum: number) =>
  z
    .number()
    .min(minimum)
    .max(maxInteger)
    .refine(Number.isInteger, 'Input should be a valid integer')
    .meta({ type: 'integer' });

const integer = z.number().int();
/** Most digits of a token id. */
const maxIdLength = 20;

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
    'Default 1, the distribution as trained. 0 always takes the most likely token.',
  ),
  top_p: optional(z.number().gt(0).max(1)).describe(
    'Default 1. Samples from the smallest set of tokens whose probability reaches this, after top_k.',
  ),
  top_k: optional(integer.min(-1)).describe(
    'Samples from the k most likely tokens. Default: off. -1 and 0 are off, too.',
  ),
  min_p: optional(z.number().min(0).max(1)).describe(
    'Default 0. Samples from tokens that are at least this fraction as likely as the most likely one, after top_k and top_p.',
  ),
  frequency_penalty: optional(z.number().min(-2).max(2)).describe(
    'Default 0. Subtracted from the logit of a token once for each time it occurs in the reply.',
  ),
  presence_penalty: optional(z.number().min(-2).max(2)).describe(
    'Default 0. Subtracted once from the logit of every token that occurs in the reply.',
  ),
  repetition_penalty: optional(z.number().min(0.01).max(100)).describe(
    'Default 1, from 0.01 to 100. Divides positive logits, and multiplies negative ones, of tokens that occur in the prompt or the reply.',
  ),
  logit_bias: optional(
    record(z.number().min(-100).max(100), { entries: chatLimits.biases, name: maxIdLength }),
  ).describe(
    `Maps token ids, as strings, to values from -100 to 100 that are added to their logits. At most ${chatLimits.biases}.`,
  ),
  allowed_token_ids: optional(tokenList(chatLimits.allowedTokens).min(1)).describe(
    'The only tokens that may be sampled, as far as constraints allow several of them. Special tokens that cannot occur in a reply are refused. Include the end token, or the reply ends only at its limit.',
  ),
  bad_words: optional(list(text(chatLimits.badWordLength).min(1), chatLimits.badWords)).describe(
    `Texts that never occur in the reply, however they are tokenized. At most ${chatLimits.badWords} of at most ${chatLimits.badWordLength} characters.`,
  ),
  logits_processors: optional(list(logitsProcessorSchema, chatLimits.processors)).describe(
    `Logits processors by the names under which the operator registered them; other names are refused. At most ${chatLimits.processors}, applied in this order.`,
  ),
  engine_xargs: optional(
    record(engineArgumentSchema, { entries: chatLimits.engineArguments, name: requestLimits.name }),
  ).describe(
    `Arguments that all logits_processors receive. Refused without logits_processors. At most ${chatLimits.engineArguments}.`,
  ),
  seed: optional(wideInteger(-maxInteger)).describe(
    "The same request with the same seed has the same choices. Choice i uses the lowest 64 bits of seed + i. JSON writers without integers beyond 2^53, such as JavaScript's, round it. No effect on beam search, which draws no random numbers.",
  ),
  n: optional(integer.min(1).max(chatLimits.choices)).describe(
    `Number of choices. Default 1, at most ${chatLimits.choices}. With use_beam_search, the number of beams and of replies, or fewer if the constraint allows fewer.`,
  ),
  use_beam_search: optional(z.boolean()).describe(
    'Default false. True: instead of samples, the n most likely replies that a beam of width n finds, best first. The score is the sum of the log-probabilities of the tokens, including the end token, divided by (their number without it) ^ length_penalty. The log-probabilities are those of the sampling distribution, including temperature. Such choices cannot be trained on. In a stream, each choice is sent whole at the end.',
  ),
  length_penalty: optional(z.number().min(-10).max(10)).describe(
    'Default 1, from -10 to 10. Larger values favour longer replies. Values other than 1 need use_beam_search.',
  ),
  max_tokens: optional(integer.min(1))
    .describe('The older name of max_completion_tokens, which takes precedence.')
    .meta({ deprecated: true }),
  max_completion_tokens: optional(integer.min(1)).describe(
    'Maximum number of tokens of the reply, including reasoning and the end token. Default and upper limit: the rest of the context.',
  ),
  min_tokens: optional(integer.min(0)).describe(
    "Default 0. Before this many tokens, neither the end token nor stop tokens nor stop strings end the reply, but its constraint may. At most the reply's maximum number of tokens.",
  ),
  ignore_eos: optional(z.boolean()).describe(
    'Default false. True: the end token does not end the reply, which continues until a stop string, a stop token or its limit. Under a constraint, it ends when the constraint allows only the end token.',
  ),
  stop: optional(
    z.union([
      text(chatLimits.stopStringLength).min(1),
      list(text(chatLimits.stopStringLength).min(1), chatLimits.stopStrings),
    ]),
  ).describe(
    `Texts that end the reply: one or a list, at most ${chatLimits.stopStrings} of at most ${chatLimits.stopStringLength} characters. They are searched for in all text that the model writes, including reasoning and calls, but not in special tokens.`,
  ),
  stop_token_ids: optional(tokenList(chatLimits.stopTokens)).describe(
    `Tokens that end the reply; at most ${chatLimits.stopTokens}.`,
  ),
};
