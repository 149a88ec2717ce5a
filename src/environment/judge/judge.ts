import type { LanguageModel, LanguageModelUsage, ModelMessage } from 'ai';
import type { z } from 'zod';
import { runOutsideTrajectory } from '../../trajectory/index.ts';
import { sha256 } from '../../util/json.ts';
import { SharedWork } from '../../util/shared-work.ts';
import { EnvironmentError } from '../errors.ts';
import { describeThrown } from '../thrown.ts';
import type { JudgeUsage, resolveJudgeOptions } from './options.ts';
import { VerdictCache } from './verdict-cache.ts';

interface Question<Answer> {
  instructions: string;
  prompt: string;
  schema: z.ZodType<Answer>;
  /** Describes what is wrong with an answer that fits the schema; undefined if nothing is. */
  check: (answer: Answer) => string | undefined;
  signal: AbortSignal;
}

type JudgeSettings = ReturnType<typeof resolveJudgeOptions>;

/**
 * A model that gives verdicts. It repeats a question until the answer is usable, asks equal questions once, and its
 * calls are never recorded in a trajectory.
 */
export class Judge {
  readonly #settings: Omit<JudgeSettings, 'task' | 'describe'>;
  readonly #cache: VerdictCache;
  readonly #usage: { -readonly [Name in keyof JudgeUsage]: JudgeUsage[Name] };
  readonly #questions = new SharedWork<string, unknown>();

  constructor(settings: Omit<JudgeSettings, 'task' | 'describe'>) {
    const { cacheFile, cacheSize, prices } = settings;
    this.#settings = settings;
    this.#cache = new VerdictCache({ file: cacheFile, size: cacheSize });
    this.#usage = { calls: 0, cached: 0, inputTokens: 0, outputTokens: 0, cost: prices ? 0 : null };
  }

  get usage(): JudgeUsage {
    return this.#usage;
  }

  /**
   * @throws EnvironmentError (`judge_call_failed`, `judge_answer_unusable`) without a usable answer; the reason of
   * `signal` if it was aborted.
   */
  ask<Answer>(question: Question<Answer>): Promise<Answer> {
    return runOutsideTrajectory(async () => {
      const key = this.#keyOf(question);
      const known = question.schema.safeParse(await this.#cache.get(key));
      if (known.success && question.check(known.data) === undefined) {
        this.#usage.cached++;
        return known.data;
      }
      if (this.#questions.has(key)) this.#usage.cached++;
      const askOnce = async (signal: AbortSignal) => {
        const verdict = await this.#askUntilUsable({ ...question, signal });
        await this.#cache.set(key, verdict);
        return verdict;
      };
      const answer = await this.#questions.join(key, askOnce, question.signal);
      return question.schema.parse(answer);
    });
  }

  async #askUntilUsable<Answer>(question: Question<Answer>): Promise<Answer> {
    const { model, attempts } = this.#settings;
    const messages: ModelMessage[] = [{ role: 'user', content: question.prompt }];
    let problem = '';
    for (let attempt = 0; attempt < attempts; attempt++) {
      const { text, wasCut } = await this.#call(question, messages);
      const read = wasCut
        ? { problem: 'It was cut off before its end. Answer more briefly.' }
        : readAnswer(text, question);
      if ('answer' in read) return read.answer;
      problem = read.problem;
      messages.push(
        { role: 'assistant', content: text },
        {
          role: 'user',
          content: `Your answer cannot be used. ${problem} Answer again, in full, in the requested format.`,
        },
      );
    }
    throw new EnvironmentError(
      'judge_answer_unusable',
      `The judge "${nameOf(model)}" gave no usable answer in ${attempts} attempts. Last problem: ${problem} Raise ` +
        '`attempts`, or use a model that follows a JSON schema.',
    );
  }

  async #call<Answer>(
    { instructions, schema, signal }: Question<Answer>,
    messages: ModelMessage[],
  ): Promise<{ text: string; wasCut: boolean }> {
    const { model, maxRetries, temperature, maxOutputTokens, providerOptions } = this.#settings;
    // The AI SDK is loaded here, at the first question.
    const [{ generateText, Output }, { readLeniently }] = await Promise.all([
      import('ai'),
      import('../loop/take-turn.ts'),
    ]);
    signal.throwIfAborted();
    try {
      const { text, finishReason, usage } = await generateText({
        model,
        instructions,
        messages,
        output: readLeniently(Output.object({ schema })).spec,
        maxRetries,
        abortSignal: signal,
        ...(temperature === undefined ? {} : { temperature }),
        ...(maxOutputTokens === undefined ? {} : { maxOutputTokens }),
        ...(providerOptions === undefined ? {} : { providerOptions }),
      });
      this.#count(usage);
      return { text, wasCut: finishReason === 'length' };
    } catch (error) {
      signal.throwIfAborted();
      throw new EnvironmentError(
        'judge_call_failed',
        `The judge "${nameOf(model)}" could not be called: ${describeThrown(error)}`,
        { cause: error },
      );
    }
  }

  #count({ inputTokens = 0, outputTokens = 0 }: LanguageModelUsage): void {
    const usage = this.#usage;
    const { prices } = this.#settings;
    usage.calls++;
    usage.inputTokens += inputTokens;
    usage.outputTokens += outputTokens;
    if (prices) usage.cost = (usage.inputTokens * prices.input + usage.outputTokens * prices.output) / 1e6;
  }

  #keyOf<Answer>({ instructions, prompt }: Question<Answer>): string {
    const { model, temperature, maxOutputTokens, providerOptions } = this.#settings;
    const settings = [temperature, maxOutputTokens, providerOptions];
    return sha256(JSON.stringify([nameOf(model), settings, instructions, prompt]));
  }
}

function nameOf(model: LanguageModel): string {
  return typeof model === 'string' ? model : `${model.provider}/${model.modelId}`;
}

function readAnswer<Answer>(
  text: string,
  { schema, check }: Question<Answer>,
): { answer: Answer } | { problem: string } {
  let json: unknown;
  try {
    // Some models put a code fence around the JSON.
    json = JSON.parse(text.slice(Math.max(0, text.indexOf('{')), text.lastIndexOf('}') + 1 || undefined));
  } catch {
    return { problem: 'It is not JSON.' };
  }
  const { data, error } = schema.safeParse(json);
  if (error) {
    const [issue] = error.issues;
    return { problem: `At "${issue?.path.join('.') ?? ''}": ${issue?.message ?? error.message}.` };
  }
  const problem = check(data);
  return problem === undefined ? { answer: data } : { problem };
}
