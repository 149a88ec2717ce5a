import type { PromptLogprob } from '../../../contract/index.ts';
import type { Engine, Generation, GenerationDelta } from '../../../engines/engine.ts';
import type { PreparedChat } from '../prepare-chat.ts';

/** The parts of a chat that sampling needs. */
export type SampledChat = Pick<PreparedChat, 'generation'> & {
  request: Partial<Pick<PreparedChat['request'], 'n' | 'seed' | 'use_beam_search' | 'length_penalty'>>;
};

/** Samples the choice of an index, which is added to the seed of the request. */
export function sampleChoice(
  engine: Engine,
  { generation, request: { seed } }: SampledChat,
  {
    index,
    signal,
    onDelta,
  }: { index: number; signal: AbortSignal; onDelta?: (delta: GenerationDelta) => void },
): Promise<Generation> {
  if (seed === undefined) return engine.generate({ ...generation, signal }, onDelta);
  const chosen = BigInt(seed) + BigInt(index);
  const own = Number.isSafeInteger(Number(chosen)) ? Number(chosen) : chosen;
  return engine.generate({ ...generation, seed: own, signal }, onDelta);
}

/** Searches for all choices at once, best first. There may be fewer than requested. */
export function searchChoices(
  engine: Engine,
  { generation, request }: SampledChat,
  signal: AbortSignal,
): Promise<Generation[]> {
  const { n: width = 1, length_penalty: lengthPenalty = 1 } = request;
  return engine.beamSearch({ ...generation, width, lengthPenalty, signal });
}

/** Log-probabilities of the prompt's tokens; null if not requested. */
export async function scorePrompt(
  engine: Engine,
  { generation: { weights, prompt, priority, tenant }, request, tools }: PreparedChat,
  signal: AbortSignal,
): Promise<(PromptLogprob | null)[] | null> {
  const { prompt_logprobs: top } = request;
  if (top === undefined) return null;
  const scoring = { weights, prompt, priority, tenant, top, signal };
  return tools.texts.promptLogprobs(await engine.scorePrompt(scoring));
}

/** Samples all choices of a request, and scores its prompt if requested. If one part fails, the others are aborted. */
export async function sampleAll(
  engine: Engine,
  chat: PreparedChat,
  signal: AbortSignal,
): Promise<{ generations: Generation[]; promptLogprobs: (PromptLogprob | null)[] | null }> {
  const { n = 1, use_beam_search: isSearched, prompt_logprobs: top } = chat.request;
  // Most requests have a single part.
  if (n === 1 && !isSearched && top === undefined)
    return { generations: [await sampleChoice(engine, chat, { index: 0, signal })], promptLogprobs: null };
  const stop = new AbortController();
  const either = AbortSignal.any([signal, stop.signal]);
  const choice = (_: unknown, index: number) => sampleChoice(engine, chat, { index, signal: either });
  try {
    const [generations, promptLogprobs] = await Promise.all([
      isSearched ? searchChoices(engine, chat, either) : Promise.all(Array.from({ length: n }, choice)),
      scorePrompt(engine, chat, either),
    ]);
    return { generations, promptLogprobs };
  } catch (error) {
    stop.abort(error);
    throw error;
  }
}
