import type { ChatCompletion, Choice } from '../../../contract/index.ts';
import type { Engine, Generation } from '../../../engines/engine.ts';
import { ReplyParser } from '../../../language/index.ts';
import { largestOf } from '../../../util/extremes.ts';
import { sumOf } from '../../../util/sums.ts';
import { inTimeSlices, TimeSlices } from '../../../util/time-slices.ts';
import { tickTime } from '../../ticks.ts';
import type { PreparedChat } from '../prepare-chat.ts';
import { reportSampling, reportStop, reportTokens, toUsage } from '../token-report.ts';
import { sampleAll } from './sample.ts';

/** Samples all choices of a request and returns the whole answer. */
export async function complete(
  engine: Engine,
  chat: PreparedChat,
  signal: AbortSignal,
): Promise<ChatCompletion> {
  const { generations, promptLogprobs } = await sampleAll(engine, chat, signal);
  // Many replies may end in the same tick.
  await tickTime();
  const completionTokens = sumOf(generations, ({ tokens }) => tokens.length);
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
    ...chat.head,
    object: 'chat.completion',
    choices,
    usage: toUsage(chat, completionTokens, cachedTokens),
    ...(promptLogprobs ? { prompt_logprobs: promptLogprobs } : {}),
    ...(chat.request.return_token_ids ? { prompt_token_ids: chat.prompt.tokens } : {}),
  };
}

function toChoice(chat: PreparedChat, generation: Generation, index: number): Choice {
  const parser = new ReplyParser(chat.tools.tokenizer, chat.reading);
  parser.push(generation.tokens);
  parser.end(generation);
  return {
    index,
    message: parser.message(),
    logprobs: null,
    finish_reason: parser.finishReason(generation),
    ...reportStop(generation),
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
