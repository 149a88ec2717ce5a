import type { ChatCompletion, Choice, PromptLogprob } from '../../../contract/index.ts';
import type { Generation } from '../../../engines/engine.ts';
import { largestOf } from '../../../util/extremes.ts';
import { inTimeSlices, TimeSlices } from '../../../util/time-slices.ts';
import { tickTime } from '../../ticks.ts';
import { type PreparedChat, tierOf, toUsage } from '../chat.ts';
import { reportSampling, reportTokens } from '../token-report.ts';

/** Samples all choices of a request and returns the whole answer. */
export async function complete(chat: PreparedChat, signal: AbortSignal): Promise<ChatCompletion> {
  const { generations, promptLogprobs } = await sample(chat, signal);
  // Many replies may end in the same tick.
  await tickTime();
  const completionTokens = generations.reduce((sum, { tokens }) => sum + tokens.length, 0);
  const cachedTokens = largestOf(
    generations.map((generation) => generation.cachedTokens),
    0,
  );
  const slices = new TimeSlices();
  const choices: Choice[] = [];
  for (const [index, generation] of generations.entries()) {
    if (index > 0 && slices.over) await slices.pause();
    choices.push(toChoice(chat, generation, index));
  }
  return {
    id: chat.id,
    object: 'chat.completion',
    created: chat.created,
    model: chat.model.pinnedName,
    choices,
    usage: toUsage(chat, completionTokens, cachedTokens),
    system_fingerprint: chat.fingerprint,
    ...tierOf(chat),
    ...(promptLogprobs ? { prompt_logprobs: promptLogprobs } : {}),
    ...(chat.request.return_token_ids ? { prompt_token_ids: chat.prompt.tokens } : {}),
  };
}

async function sample(
  chat: PreparedChat,
  signal: AbortSignal,
): Promise<{ generations: Generation[]; promptLogprobs?: (PromptLogprob | null)[] }> {
  // Most requests have a single part.
  if (chat.choices === 1 && !chat.search && !chat.scorePrompt)
    return { generations: [await chat.generate(0, signal)] };
  const stop = new AbortController();
  const either = AbortSignal.any([signal, stop.signal]);
  try {
    const [generations, promptLogprobs] = await Promise.all([
      generateAll(chat, either),
      chat.scorePrompt?.(either),
    ]);
    return promptLogprobs ? { generations, promptLogprobs } : { generations };
  } catch (error) {
    // One part failed; abort the rest, whose results nobody needs.
    stop.abort(error);
    throw error;
  }
}

function generateAll(chat: PreparedChat, signal: AbortSignal): Promise<Generation[]> {
  if (chat.search) return chat.search(signal);
  return Promise.all(Array.from({ length: chat.choices }, (_, index) => chat.generate(index, signal)));
}

function toChoice(chat: PreparedChat, generation: Generation, index: number): Choice {
  const parser = chat.parser();
  parser.push(generation.tokens);
  parser.end(generation);
  return {
    index,
    message: parser.message(),
    logprobs: null,
    finish_reason: parser.finishReason(generation),
    stop_reason: generation.stop,
    ...reportTokens(chat, generation, { isFirst: true }),
    ...reportSampling(chat, generation.tokens),
  };
}

/** JSON of a completion. With many alternatives per token it can be megabytes, so it is built choice by choice. */
export async function completionJson(completion: ChatCompletion): Promise<string> {
  if (completion.choices.length === 1) return JSON.stringify(completion);
  const members: string[] = [];
  for (const [name, value] of Object.entries(completion)) {
    if (value === undefined) continue;
    const json = name === 'choices' ? await listJson(completion.choices) : JSON.stringify(value);
    members.push(`${JSON.stringify(name)}:${json}`);
  }
  return `{${members.join(',')}}`;
}

async function listJson(items: readonly unknown[]): Promise<string> {
  const parts: string[] = [];
  for await (const [, item] of inTimeSlices(items)) parts.push(JSON.stringify(item));
  return `[${parts.join(',')}]`;
}
