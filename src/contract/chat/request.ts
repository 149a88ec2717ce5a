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

/** A request as a client writes it. */
export type ChatCompletionRequest = z.input<typeof chatCompletionRequestSchema>;
/** A request as the service reads it: `null` is gone. */
export type ParsedChatCompletionRequest = z.output<typeof chatCompletionRequestSchema>;
