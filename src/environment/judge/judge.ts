import { createHash } from 'node:crypto';
import { generateText, type LanguageModel, type ModelMessage, Output } from 'ai';
import type { z } from 'zod';
import { runOutsideTrajectory } from '../../trajectory/index.ts';
import { SharedWork } from '../../util/shared-work.ts';
import { EnvironmentError } from '../errors.ts';
import { readLeniently } from '../loop/take-turn.ts';
import { describeThrown } from '../thrown.ts';
import { type JudgeOptions, type JudgeUsage, UsageMeter } from './options.ts';
import { VerdictCache } from './verdict-cache.ts';

export interface Question<Answer> {
  instructions: string;
  prompt: string;
  schema: z.ZodType<Answer>;
  /** Describes what is wrong with an answer that fits the schema; undefined if nothing is. */
  check: (answer: Answer) => string | undefined;
  signal: AbortSignal;
}

/**
 * A model that gives verdicts. It repeats a question until the answer is usable, asks equal questions once, and its
 * calls are never recorded in a trajectory.
 */
export class Judge<Scenario, Outcome> {
  readonly #options: JudgeOptions<Scenario, Outcome>;
  readonly #cache: VerdictCache;
  readonly #meter: UsageMeter;
  readonly #questions = new SharedWork<string, unknown>();

  constructor(options: JudgeOptions<Scenario, Outcome>) {
    const { cacheFile, cacheSize = 10_000, prices } = options;
    this.#options = options;
    this.#cache = new VerdictCache({ file: cacheFile, size: cacheSize });
    this.#meter = new UsageMeter(prices);
  }

  get usage(): JudgeUsage {
    return this.#meter.usage;
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
        this.#meter.addCached();
        return known.data;
      }
      if (this.#questions.has(key)) this.#meter.addCached();
      const askOnce = async (signal: AbortSignal) => {
        const verdict = await this.#askAgain({ ...question, signal });
        await this.#cache.set(key, verdict);
        return verdict;
      };
      const answer = await this.#questions.join(key, askOnce, question.signal);
      return question.schema.parse(answer);
    });
  }

  async #askAgain<Answer>(question: Question<Answer>): Promise<Answer> {
    const { attempts = 3 } = this.#options;
    const messages: ModelMessage[] = [{ role: 'user', content: question.prompt }];
    let complaint = '';
    for (let attempt = 0; attempt < attempts; attempt++) {
      const { text, wasCut } = await this.#call(question, messages);
      const read = wasCut
        ? { wrong: 'It was cut off before its end. Be briefer.' }
        : readAnswer(text, question);
      if ('answer' in read) return read.answer;
      complaint = read.wrong;
      messages.push(
        { role: 'assistant', content: text },
        {
          role: 'user',
          content: `Your answer cannot be used. ${complaint} Answer again, in full, in the form asked for.`,
        },
      );
    }
    const { model } = this.#options;
    throw new EnvironmentError(
      'judge_answer_unusable',
      `The judge "${nameOf(model)}" was asked ${attempts} times, and its last answer cannot be used: ${complaint} Raise ` +
        '`attempts`, or take a model that keeps to a JSON schema.',
    );
  }

  async #call<Answer>(
    { instructions, schema, signal }: Question<Answer>,
    messages: ModelMessage[],
  ): Promise<{ text: string; wasCut: boolean }> {
    const { model, maxRetries = 2, temperature, maxOutputTokens, providerOptions } = this.#options;
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
      this.#meter.addCall(usage);
      return { text, wasCut: finishReason === 'length' };
    } catch (error) {
      signal.throwIfAborted();
      throw new EnvironmentError(
        'judge_call_failed',
        `The judge "${nameOf(model)}" could not be asked: ${describeThrown(error)}`,
        {
          cause: error,
        },
      );
    }
  }

  #keyOf<Answer>({ instructions, prompt }: Question<Answer>): string {
    const { model, temperature, maxOutputTokens, providerOptions } = this.#options;
    const settings = [temperature, maxOutputTokens, providerOptions];
    return hashOf(JSON.stringify([nameOf(model), settings, instructions, prompt]));
  }
}

export const hashOf = (text: string): string => createHash('sha256').update(text).digest('hex');

function nameOf(model: LanguageModel): string {
  return typeof model === 'string' ? model : `${model.provider}/${model.modelId}`;
}

function readAnswer<Answer>(
  text: string,
  { schema, check }: Question<Answer>,
): { answer: Answer } | { wrong: string } {
  let json: unknown;
  try {
    // Some models put a code fence around the JSON.
    json = JSON.parse(text.slice(Math.max(0, text.indexOf('{')), text.lastIndexOf('}') + 1 || undefined));
  } catch {
    return { wrong: 'It is not JSON.' };
  }
  const { data, error } = schema.safeParse(json);
  if (error) {
    const [issue] = error.issues;
    return { wrong: `At "${issue?.path.join('.') ?? ''}": ${issue?.message ?? error.message}.` };
  }
  const wrong = check(data);
  return wrong === undefined ? { answer: data } : { wrong };
}
