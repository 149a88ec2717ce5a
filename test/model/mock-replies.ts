import type {
  LanguageModelV4Content,
  LanguageModelV4GenerateResult,
  LanguageModelV4StreamPart,
} from '@ai-sdk/provider';

export const usage = (input: number, output: number): LanguageModelV4GenerateResult['usage'] => ({
  inputTokens: { total: input, noCache: input, cacheRead: undefined, cacheWrite: undefined },
  outputTokens: { total: output, text: output, reasoning: undefined },
});

/** The answer of a mock model: text, or any content. It counts 10 input and 4 output tokens. */
export function saying(said: string | LanguageModelV4Content[]): LanguageModelV4GenerateResult {
  const content: LanguageModelV4Content[] = typeof said === 'string' ? [{ type: 'text', text: said }] : said;
  const unified = content.some(({ type }) => type === 'tool-call') ? 'tool-calls' : 'stop';
  return { content, finishReason: { unified, raw: unified }, usage: usage(10, 4), warnings: [] };
}

/** The same answer as a stream, with two deltas per text. */
export function streaming(said: string | LanguageModelV4Content[]): LanguageModelV4StreamPart[] {
  const { content, finishReason, usage: used } = saying(said);
  const parts = content.flatMap((part, at): LanguageModelV4StreamPart[] => {
    if (part.type === 'tool-call') return [part];
    if (part.type !== 'text' && part.type !== 'reasoning') return [];
    const id = `${part.type}-${at}`;
    const middle = Math.ceil(part.text.length / 2);
    const deltas = [part.text.slice(0, middle), part.text.slice(middle)];
    return part.type === 'text'
      ? [
          { type: 'text-start', id },
          ...deltas.map((delta) => ({ type: 'text-delta' as const, id, delta })),
          { type: 'text-end', id },
        ]
      : [
          { type: 'reasoning-start', id },
          ...deltas.map((delta) => ({ type: 'reasoning-delta' as const, id, delta })),
          { type: 'reasoning-end', id },
        ];
  });
  return [{ type: 'stream-start', warnings: [] }, ...parts, { type: 'finish', finishReason, usage: used }];
}
