import { z } from 'zod';
import { emptyObject, json, list, optional, text } from '../bounded.ts';
import { chatLimits, requestLimits } from '../limits.ts';
import { answerFields } from './answer-fields.ts';
import { messageSchema } from './messages.ts';
import { largestInteger, samplingFields } from './sampling-fields.ts';
import { toolSchema } from './tools.ts';

/** A document for the chat template. */
export const documentSchema = json();

/** Fields of a chat request that make up the prompt. */
const promptFields = {
  messages: list(messageSchema, chatLimits.messages).min(1),
  model: optional(text(requestLimits.model)).describe(
    'A base model, a model (entity/project/name: its newest checkpoint) or a checkpoint (with :stepN). Absent: the first base model. An unknown name is 404.',
  ),
  tools: optional(list(toolSchema, chatLimits.tools)),
  documents: optional(list(documentSchema, chatLimits.documents)).describe(
    'Documents for the chat template; each is best an object with title and text. No effect where the template shows none.',
  ),
  chat_template: optional(text(chatLimits.template)).describe(
    "A Jinja template to use instead of the model's own, of at most 64 KiB. It sees messages (role, content, reasoning, tool_calls, tool_call_id, name; contents are texts, arguments JSON texts), tools, documents, add_generation_prompt, reasoning_effort, bos_token and eos_token. Special tokens are what it writes itself, never what stands in a text it is given. It has 1 second, 64 MiB of memory and 1,048,576 characters of output; one that fails or needs more is refused with its reason.",
  ),
  chat_template_kwargs: optional(
    json(requestLimits.json, {
      entries: chatLimits.templateVariables,
      name: chatLimits.templateVariableName,
    }),
  ).describe('Further variables of the chat template. No effect where the template does not look at them.'),
  add_generation_prompt: optional(z.boolean()).describe(
    'Default true: the prompt ends with what begins a reply. Cannot be true together with continue_final_message.',
  ),
  continue_final_message: optional(z.boolean()).describe(
    'Default false. True: the last message is left open, and the reply goes on with it: not after tool calls, and without reasoning_effort.',
  ),
  add_special_tokens: optional(z.boolean()).describe(
    "Default false. True: the tokenizer's own special tokens are added on top of the template's.",
  ),
  truncate_prompt_tokens: optional(
    // `int()` refuses numbers beyond 2^53.
    z
      .number()
      .min(-1)
      .max(largestInteger)
      .refine(Number.isInteger, 'Input should be a valid integer')
      .meta({ type: 'integer' }),
  ).describe('Keeps only the last so many tokens of the prompt; -1 keeps what the context can hold.'),
  mm_processor_kwargs: optional(
    emptyObject('these are text models, with no processor of other media'),
  ).describe(
    'Anything but an empty object is refused: these are text models, with no processor of other media.',
  ),
};

/**
 * The body of `POST /v1/chat/completions`, with every field of the interface. Only `messages` is required. Every field
 * is obeyed, or refused by name with a 422; none is ignored silently.
 */
export const chatCompletionRequestSchema = z
  .object({ ...promptFields, ...samplingFields, ...answerFields })
  .meta({ id: 'ChatCompletionRequest' });

/**
 * Fields of OpenAI's chat requests that this interface does not have, each with what to do instead. They are refused by
 * name.
 */
export const refusedChatFields = {
  functions: 'It is the older form of `tools`: send `tools` and `tool_choice`.',
  audio: 'The models write text: leave it out.',
  verbosity:
    'The models know no verbosity: leave it out, or name a model that your client has no defaults for.',
  prediction: 'Nothing is gained by a predicted reply here: leave it out.',
  web_search_options: 'Nothing is searched here: give the reply a tool that searches.',
} as const;

/** A request as a client sends it. */
export type ChatCompletionRequest = z.input<typeof chatCompletionRequestSchema>;
/** A parsed request: `null` has become `undefined`. */
export type ParsedChatCompletionRequest = z.output<typeof chatCompletionRequestSchema>;

/** Vendor names that deployed clients send, and this interface's names for the same fields. */
export const chatFieldAliases = { vllm_xargs: 'engine_xargs' } as const;
export const configFieldAliases = { kimi_k2_tau: 'vendor_k2_tau' } as const;
export const projectHeader = 'Compat-Project';
export const projectHeaderAlias = 'OpenAI-Project';
