import type { ChatCompletion, Choice } from '../../contract/index.ts';
import type { Generation } from '../../engines/engine.ts';
import { type PreparedChat, toUsage } from './chat.ts';

/** Samples every choice of a request and answers in one piece. */
export async function complete(chat: PreparedChat, signal: AbortSignal): Promise<ChatCompletion> {
  const stop = new AbortController();
  const either = chat.choices === 1 ? signal : AbortSignal.any([signal, stop.signal]);
  const indices = Array.from({ length: chat.choices }, (_, index) => index);
  try {
    const generations = await Promise.all(indices.map((index) => chat.generate(index, either)));
    const completionTokens = generations.reduce((sum, { tokens }) => sum + tokens.length, 0);
    const cachedTokens = Math.max(...generations.map((generation) => generation.cachedTokens));
    return {
      id: chat.id,
      object: 'chat.completion',
      created: chat.created,
      model: chat.model.pinnedName,
      choices: generations.map((generation, index) => toChoice(chat, generation, index)),
      usage: toUsage(chat.prompt, completionTokens, cachedTokens),
      ...(chat.request.return_token_ids ? { prompt_token_ids: chat.prompt } : {}),
    };
  } catch (error) {
    // One choice failed: the others have nobody to answer to.
    stop.abort(error);
    throw error;
  }
}

function toChoice(chat: PreparedChat, generation: Generation, index: number): Choice {
  const parser = chat.parser();
  parser.push(generation.tokens);
  parser.end(generation.stop);
  return {
    index,
    message: parser.message(),
    logprobs: chat.request.logprobs ? chat.tools.texts.logprobs(generation) : null,
    finish_reason: parser.finishReason(generation),
    stop_reason: generation.stop,
    ...(chat.request.return_token_ids ? { token_ids: generation.tokens } : {}),
    sampling: chat.sampling,
  };
}
