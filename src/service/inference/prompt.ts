import type { BaseModel, Caller } from '../../engines/engine.ts';
import {
  charactersIn,
  type RenderOptions,
  renderWith,
  type Turn,
  toTemplateValues,
  toTurn,
} from '../../language/index.ts';
import { TimeSlices } from '../../util/time-slices.ts';
import { invalidField, ServiceError } from '../errors.ts';
import type { ChatRequest } from './chat-request.ts';
import type { BaseModelTools } from './resolve-model.ts';

/** The prompt of a reply. */
export interface Prompt {
  tokens: number[];
  /** The messages that it shows. */
  turns: readonly Turn[];
  /** Whether it differs from what the messages and tools alone render to. */
  own: boolean;
}

/**
 * Renders the prompt of a chat request to token ids. Rejects with a 422 that names the invalid field. Does
 * not check whether a reply still fits.
 */
export async function toPrompt(
  request: ChatRequest,
  { tools, base, caller }: { tools: BaseModelTools; base: BaseModel; caller?: Caller },
): Promise<Prompt> {
  const { renderer } = tools;
  const { contextLength } = base;
  const characters = charactersIn([request.messages, request.documents, request.chat_template_kwargs]);
  renderer.checkSize(characters, contextLength);
  const turns = await toTurns(request.messages);
  const options = { ...toRenderOptions(request, turns), contextLength, caller };
  const values = toTemplateValues(request, tools.format.template);
  const conversation = { turns, tools: request.tools };
  const rendered =
    values !== null
      ? await renderWith(values, conversation, options, { renderer, caller })
      : await renderer.render(conversation, options);
  const begin = request.add_special_tokens ? tools.format.beginToken : null;
  const whole = begin === null ? rendered.tokens : [begin, ...rendered.tokens];
  if (whole.length === 0)
    throw new ServiceError(422, 'empty_prompt', 'The chat template renders these messages to nothing.');
  const tokens = truncate(whole, request, contextLength);
  const own =
    values !== null ||
    begin !== null ||
    tokens.length < whole.length ||
    !options.addGenerationPrompt ||
    options.reasoningEffort !== undefined ||
    // A template with today's date renders otherwise tomorrow.
    tools.format.template.includes('strftime_now');
  return { tokens, turns, own };
}

/** In time slices, because parsing the tool calls of long messages takes milliseconds. */
async function toTurns(messages: ChatRequest['messages']): Promise<Turn[]> {
  const slices = new TimeSlices();
  const turns: Turn[] = [];
  for (const [index, message] of messages.entries()) {
    if (slices.over) await slices.pause();
    turns.push(toTurn(message, ['messages', index]));
  }
  return turns;
}

function toRenderOptions(request: ChatRequest, turns: readonly Turn[]): RenderOptions {
  const continueFinalMessage = request.continue_final_message ?? false;
  if (continueFinalMessage) checkContinued(request, turns);
  return {
    continueFinalMessage,
    addGenerationPrompt: request.add_generation_prompt ?? !continueFinalMessage,
    reasoningEffort: request.reasoning_effort,
  };
}

function checkContinued(request: ChatRequest, turns: readonly Turn[]): void {
  if (request.add_generation_prompt === true)
    throw invalidField(
      ['add_generation_prompt'],
      'cannot be true with continue_final_message, which continues the last message instead',
      true,
    );
  if ((request.reasoning_effort ?? 'none') !== 'none')
    throw invalidField(
      ['reasoning_effort'],
      'cannot be used with continue_final_message, where the content of the reply has begun; leave it out',
      request.reasoning_effort,
    );
  const last = turns.length - 1;
  const final = turns[last];
  if (final && final.toolCalls.length > 0)
    throw invalidField(
      ['messages', last, 'tool_calls'],
      'continue_final_message cannot continue a message with tool calls; leave them out',
      final.toolCalls,
    );
}

/** Keeps the last tokens; a begin token is cut off like any other. */
function truncate(tokens: number[], request: ChatRequest, contextLength: number): number[] {
  const limit = request.truncate_prompt_tokens;
  if (limit === undefined) return tokens;
  if (limit === 0)
    throw invalidField(
      ['truncate_prompt_tokens'],
      'leaves no prompt; send at least 1, or -1 for as many tokens as fit',
      0,
    );
  if (limit > 0) return limit < tokens.length ? tokens.slice(-limit) : tokens;
  const reply = request.max_completion_tokens ?? request.max_tokens ?? 1;
  const left = contextLength - reply;
  if (left < 1)
    throw invalidField(
      ['truncate_prompt_tokens'],
      `leaves no space for a prompt: the reply takes ${reply} of the context's ${contextLength} tokens`,
      limit,
    );
  return left < tokens.length ? tokens.slice(-left) : tokens;
}
