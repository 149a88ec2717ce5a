import { mkdir, open, readdir, rename, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type {
  BaseModel,
  BeamSearchRequest,
  Engine,
  ExportedWeights,
  GenerateRequest,
  Generation,
  GenerationDelta,
  ScoredToken,
  ScorePromptRequest,
  TrainedTokens,
  TrainingBatch,
  TrainRequest,
  Weights,
} from '../../src/engines/engine.ts';
import { EngineError } from '../../src/engines/engine.ts';
import { callForms } from '../../src/language/call-forms.ts';
import type { Constraint, Reply } from '../../src/language/grammar/constraint.ts';
import type { ChatFormat, Tokenizer } from '../../src/language/tokenizer/tokenizer.ts';

/** Special tokens and tags, after the bytes (tokens 0 to 255). Token 260 is "ab", a second way to write two bytes. */
export const special = {
  user: 256,
  assistant: 257,
  end: 258,
  call: 259,
  system: 261,
  tool: 262,
  tools: 263,
  begin: 264,
  think: 265,
  answer: 266,
  callEnd: 267,
};
const wideToken = 260;
const specialTexts = new Map([
  ['<|user|>', special.user],
  ['<|assistant|>', special.assistant],
  ['<|end|>', special.end],
  ['<|system|>', special.system],
  ['<|tool|>', special.tool],
  ['<|tools|>', special.tools],
  ['<|begin|>', special.begin],
]);
const tags = new Map([
  ['<tool_call>', special.call],
  ['</tool_call>', special.callEnd],
  ['<think>', special.think],
  ['</think>', special.answer],
]);
const textOfSpecial = new Map([...specialTexts].map(([text, token]) => [token, text]));
const textOfTag = new Map([...tags].map(([text, token]) => [token, text]));

export const byteTokenizer: Tokenizer = {
  vocabularySize: 268,
  added: new Map([...specialTexts, ...tags]),
  special: specialTexts,
  missingBytes: new Set(),
  encode: (text) => [...Buffer.from(text, 'utf8')],
  encodeExactly: (text) => [...Buffer.from(text, 'utf8')],
  decode: (tokens) => Buffer.concat(tokens.map((token) => byteTokenizer.bytes(token))).toString('utf8'),
  bytes: (token) => {
    if (token === wideToken) return Buffer.from('ab');
    return token < 256 ? Uint8Array.of(token) : Buffer.from(textOfTag.get(token) ?? '');
  },
  text: (token) => textOfSpecial.get(token) ?? Buffer.from(byteTokenizer.bytes(token)).toString('utf8'),
};

export const chatTemplate = [
  '{%- if tools %}<|tools|>{{ tools | tojson }}<|end|>{% endif -%}',
  '{%- for message in messages -%}',
  "{%- if message.role == 'critic' -%}{{- raise_exception('no critics') -}}{%- endif -%}",
  "{%- if message.role == 'assistant' -%}<|assistant|>{%- elif message.role == 'system' -%}<|system|>",
  "{%- elif message.role == 'tool' -%}<|tool|>{%- else -%}<|user|>{%- endif -%}",
  '{{- message.content -}}',
  '{%- for call in message.tool_calls or [] -%}',
  '{%- set values = call.function.arguments -%}',
  "<tool_call>{{- call.function.name -}}{{- values if values is string else values | tojson(separators=[',', ':']) -}}",
  '</tool_call>{%- endfor -%}<|end|>',
  '{%- endfor -%}',
  '{%- if add_generation_prompt -%}<|assistant|>{%- endif -%}',
].join('');

export const baseModel: BaseModel = {
  id: 'scripted-tiny',
  contextLength: 512,
  vocabularySize: byteTokenizer.vocabularySize,
  parameters: 1,
  defaults: { rlLearningRate: 1e-3, sftLearningRate: 2e-3, sftBatchSize: 2 },
};

/** Token ids of text and special tokens, in order. */
export const tokensOf = (...parts: (string | number)[]): number[] =>
  parts.flatMap((part) => (typeof part === 'number' ? [part] : byteTokenizer.encode(part)));

export interface ScriptedReply {
  tokens: number[];
  finishReason?: 'stop' | 'length';
  stop?: string | number;
}

export interface TrainedBatch extends TrainingBatch {
  from: Weights;
}

/**
 * An engine without a model: it answers what it is told to, remembers what it was asked, and trains by writing a
 * file. Deterministic; it can be told to hold still or to fail.
 */
export class ScriptedEngine implements Engine {
  readonly name = 'scripted';
  readonly baseModels = [baseModel];
  readonly requests: GenerateRequest[] = [];
  readonly trained: TrainedBatch[] = [];
  readonly dropped: Weights[] = [];
  /** Number of finished `train` calls. */
  trainings = 0;
  /** The next replies. The last one repeats forever. */
  replies: ScriptedReply[] = [{ tokens: tokensOf('hello', special.end) }];
  /** Awaited before each generation and each gradient step, with the signal of the work. */
  hold: ((place: 'generate' | 'train') => Promise<void>) | null = null;
  failTraining: Error | null = null;
  /** What a gradient step reports of its tokens. Absent: nothing. */
  tokensOf: ((batch: TrainingBatch) => TrainedTokens) | null = null;
  failGeneration: Error | null = null;

  tokenizer(): Tokenizer {
    return byteTokenizer;
  }

  chatFormat(): ChatFormat {
    return {
      template: chatTemplate,
      toolTemplate: null,
      templateFrom: 'checkpoint',
      variables: { bos_token: '<|begin|>', eos_token: '<|end|>' },
      otherEndTokens: [],
      beginToken: special.begin,
      endToken: special.end,
      calls: {
        ...callForms.named,
        tokens: { '<tool_call>': special.call, '</tool_call>': special.callEnd },
      },
      reasoning: {
        ...{ open: '<think>', close: '</think>', afterOpen: '', afterClose: '', opened: false },
        tokens: { open: special.think, close: special.answer },
      },
    };
  }

  async checkConstraint(_baseModel: string, constraint: Constraint): Promise<void> {
    const { grammar } = constraint;
    if (grammar.type === 'regex' && grammar.pattern.includes('(?='))
      throw new EngineError('unsupported_regex', `regex: lookahead is not supported in ${grammar.pattern}`);
  }

  readonly logitsProcessors: readonly string[] = ['test.Doubling'];
  /** The requests of `beamSearch` and `scorePrompt`. */
  readonly searches: BeamSearchRequest[] = [];
  readonly scored: ScorePromptRequest[] = [];

  /** Returns the next `width` replies, like `generate`. */
  async beamSearch(request: BeamSearchRequest): Promise<Generation[]> {
    this.searches.push(request);
    const found: Generation[] = [];
    for (let index = 0; index < request.width; index++) found.push(await this.generate(request));
    return found;
  }

  /** Each token has half the probability of the one before it; token 65 is always the likeliest. */
  async scorePrompt(request: ScorePromptRequest): Promise<(ScoredToken | null)[]> {
    this.scored.push(request);
    const top = request.top > 0 ? [{ token: 65, logprob: -0.1 }] : [];
    return request.prompt.map((token, index) =>
      index === 0 ? null : { token, logprob: -index * Math.LN2, rank: 2, top },
    );
  }

  async exportWeights(weights: Weights): Promise<ExportedWeights> {
    const bytes = Buffer.from(JSON.stringify(weights));
    const chunks = (async function* () {
      yield bytes;
    })();
    return { extension: '.safetensors', bytes: bytes.byteLength, chunks };
  }

  async generate(request: GenerateRequest, onDelta?: (delta: GenerationDelta) => void): Promise<Generation> {
    this.requests.push(request);
    await this.#pause('generate', request.signal);
    if (this.failGeneration) throw this.failGeneration;
    const reply = this.replies.length > 1 ? this.replies.shift() : this.replies[0];
    const tokens = (reply?.tokens ?? []).slice(0, request.maxTokens);
    const generation: Generation = {
      tokens,
      logprobs: tokens.map((_, index) => -(index + 1) / 8),
      topLogprobs: tokens.map((token, index) =>
        request.topLogprobs > 0 ? [{ token, logprob: -(index + 1) / 8 }] : [],
      ),
      finishReason:
        reply && reply.tokens.length > request.maxTokens ? 'length' : (reply?.finishReason ?? 'stop'),
      stop: reply?.stop ?? null,
      cachedTokens: 3,
    };
    if (onDelta)
      for (let index = 0; index < tokens.length; index++) {
        await nextTurn();
        request.signal?.throwIfAborted();
        onDelta({
          tokens: tokens.slice(index, index + 1),
          logprobs: generation.logprobs.slice(index, index + 1),
          topLogprobs: generation.topLogprobs.slice(index, index + 1),
        });
      }
    return generation;
  }

  async encodeReplies(
    _baseModel: string,
    replies: readonly Reply[],
    _options?: { signal?: AbortSignal },
  ): Promise<number[][]> {
    return replies.map(({ parts, end = this.chatFormat().endToken }) => {
      if (parts.some((part) => typeof part === 'string' && part.includes('impossible')))
        throw new EngineError('not_in_grammar', 'the reply does not follow its constraint');
      const encode = (part: string | number) =>
        typeof part === 'number' ? [part] : this.tokenizer().encode(part);
      return [...parts.flatMap(encode), end];
    });
  }

  async train({ from, folder, batches, onStep, signal }: TrainRequest): Promise<void> {
    let steps = 0;
    for await (const batch of batches) {
      await this.#pause('train', signal);
      if (this.failTraining) throw this.failTraining;
      this.trained.push({ ...batch, from });
      steps++;
      onStep({ loss: 1 / steps, grad_norm: 0.5 }, this.tokensOf?.(batch));
    }
    await mkdir(dirname(folder), { recursive: true });
    await mkdir(`${folder}.partial`, { recursive: true });
    await writeFile(
      join(`${folder}.partial`, 'weights'),
      `${from.folder === null ? 'base' : from.folder} + ${steps}`,
    );
    await rename(`${folder}.partial`, folder);
    const handle = await open(folder);
    await handle.close();
    this.trainings++;
  }

  async drop(weights: Weights): Promise<void> {
    // The folder must still exist: it is deleted after the engine has released it.
    if (weights.folder !== null) await readdir(weights.folder);
    this.dropped.push(weights);
  }

  async close(): Promise<void> {}

  async #pause(place: 'generate' | 'train', signal: AbortSignal | undefined): Promise<void> {
    signal?.throwIfAborted();
    if (!this.hold) return;
    await Promise.race([
      this.hold(place),
      new Promise((_, reject) =>
        signal?.addEventListener('abort', () => reject(signal.reason), { once: true }),
      ),
    ]);
  }
}

/** A gate at which work waits until it is opened. `reached` resolves when the first work arrives. */
export function door() {
  const opened = Promise.withResolvers<void>();
  const reached = Promise.withResolvers<void>();
  return {
    reached: reached.promise,
    open: () => opened.resolve(),
    wait: async () => {
      reached.resolve();
      await opened.promise;
    },
  };
}
