import { z } from 'zod';
import { emptyObject, json, list, optional, text } from '../bounded.ts';
import { chatLimits, requestLimits } from '../limits.ts';
import { answerFields } from './answer-fields.ts';
import { messageSchema } from './messages.ts';
import { samplingFields, wideInteger } from './sampling-fields.ts';
import { toolSchema } from './tools.ts';

/** A document for the chat template. */
export const documentSchema = json();

/** Fields of a chat request that make up the prompt. */
const promptFields = {
  messages: list(messageSchema, chatLimits.messages).min(1),
  model: optional(text(requestLimits.model)).describe(
    'A base model, a model (entity/project/name: its newest checkpoint) or a checkpoint (with :stepN). Default: the first base model. An unknown name is answered with 404.',
  ),
  tools: optional(list(toolSchema, chatLimits.tools)),
  documents: optional(list(documentSchema, chatLimits.documents)).describe(
    'Documents for the chat template, preferably objects with title and text. No effect if the template does not use them.',
  ),
  chat_template: optional(text(chatLimits.template)).describe(
    "A Jinja template to use instead of the model's own, of at most 64 KiB. It sees messages (role, content, reasoning, tool_calls, tool_call_id, name; contents are texts, arguments JSON texts), tools, documents, add_generation_prompt, reasoning_effort, bos_token and eos_token. Only special tokens that the template itself writes count, not those in its input. Limits: 1 second, 64 MiB of memory and 1,048,576 characters of output. A template that fails or exceeds them is refused with the reason.",
  ),
  chat_template_kwargs: optional(
    json(requestLimits.json, {
      entries: chatLimits.templateVariables,
      name: chatLimits.templateVariableName,
    }),
  ).describe('Further variables of the chat template. No effect if the template does not use them.'),
  add_generation_prompt: optional(z.boolean()).describe(
    'Default true: the prompt ends with the beginning of a reply. Must not be true with continue_final_message.',
  ),
  continue_final_message: optional(z.boolean()).describe(
    'Default false. True: the reply continues the last message, which stays open. Refused if that message has tool calls, and with reasoning_effort.',
  ),
  add_special_tokens: optional(z.boolean()).describe(
    'Default false. True: the tokenizer adds its own special tokens too.',
  ),
  truncate_prompt_tokens: optional(wideInteger(-1)).describe(
    'Keeps only this many tokens at the end of the prompt. -1: as many as fit into the context.',
  ),
  mm_processor_kwargs: optional(emptyObject('the models read only text')).describe(
    'Must be empty: the models read only text.',
  ),
};

/**
 * The body of `POST /v1/chat/completions`, with every field of the interface. Only `messages` is required. Every field
 * is obeyed, or refused by name with a 422; none is ignored silently.
 */
export const chatCompletionRequestSchema = z
  .object({ ...promptFields, ...samplingFields, ...answerFields })
  .meta({ id: 'ChatCompletionRequest' });

let compiled: typeof chatCompletionRequestSchema | undefined;

/** `chatCompletionRequestSchema`, compiled by zod: several times as fast. The first call takes 30 ms. */
export const compiledChatRequestSchema = () => (compiled ??= z.compile(chatCompletionRequestSchema));

const sendStructured = (kind: string) => `Send structured_outputs: {"${kind}": ...} instead.`;

const sendEffort = 'Send `reasoning_effort` instead; "none" turns reasoning off.';

/**
 * Fields of chat requests of OpenAI and of other servers that this interface does not have, each with what to do instead.
 * They are refused by name.
 */
export const refusedChatFields = {
  functions: 'It is the older form of `tools`: send `tools` and `tool_choice` instead.',
  audio: 'The models write only text: leave it out.',
  verbosity:
    'The models have no verbosity setting: leave it out, or use a model name for which your client has no defaults.',
  prediction: 'Predicted replies have no use here: leave it out.',
  web_search_options: 'There is no web search: define a tool that searches.',
  best_of: 'Send `n` instead, and choose among the replies.',
  reasoning: sendEffort,
  thinking: sendEffort,
  enable_thinking: sendEffort,
  guided_json: sendStructured('json'),
  guided_regex: sendStructured('regex'),
  guided_choice: sendStructured('choice'),
  guided_grammar: sendStructured('grammar'),
  json_schema: sendStructured('json'),
  regex: sendStructured('regex'),
  ebnf: sendStructured('grammar'),
  grammar: sendStructured('grammar'),
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
