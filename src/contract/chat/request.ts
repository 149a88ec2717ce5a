import { z } from 'zod';
import { answerFields } from './answer-fields.ts';
import { promptFields } from './prompt-fields.ts';
import { samplingFields } from './sampling-fields.ts';

/**
 * The body of `POST /v1/chat/completions`: every field of the interface. Only `messages` is required. What a field
 * asks for is done or refused, by name, with a 422; nothing is passed over in silence.
 */
export const chatCompletionRequestSchema = z
  .object({ ...promptFields, ...samplingFields, ...answerFields })
  .meta({ id: 'ChatCompletionRequest' });

/**
 * Fields of OpenAI's chat requests that this interface does not have, each with what to do instead. They are refused
 * by their names.
 */
export const refusedChatFields = {
  functions: 'It is the older form of `tools`: send `tools` and `tool_choice`.',
  audio: 'The models write text: leave it out.',
  verbosity:
    'The models know no verbosity: leave it out, or name a model that your client has no defaults for.',
  prediction: 'Nothing is gained by a predicted reply here: leave it out.',
  web_search_options: 'Nothing is searched here: give the reply a tool that searches.',
} as const;

/** A request as a client writes it. */
export type ChatCompletionRequest = z.input<typeof chatCompletionRequestSchema>;
/** A request as the service reads it: `null` is gone. */
export type ParsedChatCompletionRequest = z.output<typeof chatCompletionRequestSchema>;
