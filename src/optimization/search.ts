import { join } from 'node:path';
import type { z } from 'zod';
import type { TextSet } from '../environment/index.ts';
import type { Evaluation } from '../evaluation/index.ts';
import { openProgress } from '../progress/index.ts';
import { commonFailures } from '../rollout/index.ts';
import { type RunDirectory, runFiles } from '../training/index.ts';
import { deriveSeed, randomSource } from '../trajectory/index.ts';
import { storing, writeAtomically } from '../util/durable-files.ts';
import { messageOf } from '../util/error.ts';
import { meanOf } from '../util/sums.ts';
import { checkConfig, toConfig } from './config.ts';
import { OptimizationError } from './error.ts';
import {
  type OptimizationCandidate,
  type OptimizationIteration,
  OptimizationLog,
  type OptimizationRecord,
} from './log.ts';
import type { Optimization, OptimizeOptions } from './options.ts';
import { reflectOn } from './reflection.ts';
import { bestOf, drawCandidate, isBetter, minibatchOf, nextText } from './selection.ts';
import { Spending } from './spending.ts';
import { Ended, Trials } from './trials.ts';

const defaults = { iterations: 20, minibatch: 3, reflectTimeoutMs: 600_000 };

/** Paths of seeds. */
const [minibatchSeed, drawSeed, rolloutSeed] = [1, 2, 3];

/** What an iteration found. */
type Found = Pick<OptimizationIteration, 'outcome'> &
  Partial<Pick<OptimizationIteration, 'text' | 'because' | 'after' | 'candidate'>>;

/**
 * One run of `optimize`. Nothing but the log is its state: every choice follows from the seed and the records, so a
 * resumed run continues with the same choices.
 */
export class Search<Schema extends z.ZodType, Outcome, Texts extends TextSet> {
  readonly #options: OptimizeOptions<Schema, Outcome, Texts>;
  readonly #directory: RunDirectory;
  readonly #log: OptimizationLog;
  readonly #spending: Spending;
  readonly #trials: Trials<Schema, Outcome, Texts>;
  readonly #note: (text: string) => void;

  private constructor(
    options: OptimizeOptions<Schema, Outcome, Texts>,
    { directory, log, note }: { directory: RunDirectory; log: OptimizationLog; note: (text: string) => void },
  ) {
    this.#options = options;
    this.#directory = directory;
    this.#log = log;
    this.#note = note;
    this.#spending = new Spending(log.iterations.at(-1)?.spent, options);
    this.#trials = new Trials(options, { directory, spending: this.#spending });
  }

  /** @param validated The validation scenarios, parsed. */
  static async run<Schema extends z.ZodType, Outcome, Texts extends TextSet>(
    options: OptimizeOptions<Schema, Outcome, Texts>,
    directory: RunDirectory,
    validated: readonly z.output<Schema>[],
  ): Promise<Optimization<Texts>> {
    const { iterations = defaults.iterations, minibatch = defaults.minibatch } = options;
    const size = Math.min(minibatch, options.scenarios.length);
    const saved = await directory.read(runFiles.config);
    const config = toConfig(options, { iterations, minibatch: size, validated, started: saved?.started });
    if (saved) checkConfig(directory.path, saved, config);
    await directory.write(runFiles.config, config);
    await directory.repairEvents();
    const log = await OptimizationLog.open(directory.path);
    const title = `texts of ${options.environment.name}`;
    const view = openProgress(options.progress, { title });
    try {
      const search = new Search(options, { directory, log, note: view?.note ?? (() => undefined) });
      return await search.#toEnd({ iterations, size, show: view?.listen ?? (() => undefined) });
    } finally {
      view?.close();
    }
  }

  async #toEnd({
    iterations,
    size,
    show,
  }: {
    iterations: number;
    size: number;
    show: NonNullable<ReturnType<typeof openProgress>>['listen'];
  }): Promise<Optimization<Texts>> {
    const report = () => {
      const best = this.#best;
      const metrics: Record<string, number> = best ? { reward: meanOf(best.rewards) } : {};
      show({ type: 'phase', phase: 'optimization', done: this.#finished, total: iterations, metrics });
    };
    let end: Pick<Optimization, 'reason' | 'because'> = { reason: 'finished', because: null };
    try {
      report();
      if (this.#log.iterations.length === 0) await this.#begin();
      while (this.#finished < iterations) {
        if (this.#isSolved(size)) {
          end = { reason: 'early_stop', because: 'every rollout of a pass over all scenarios succeeded' };
          break;
        }
        await this.#iterate(this.#finished + 1, size);
        report();
      }
    } catch (error) {
      if (!(error instanceof Ended)) {
        // The original error matters more than a summary that could not be written.
        await this.#summarize({ reason: 'failed', error: { message: messageOf(error) } }).catch(
          () => undefined,
        );
        throw error;
      }
      end = error;
    }
    const { reason, because } = end;
    const best = this.#best;
    await this.#summarize({ reason, because });
    const runDirectory = this.#directory.path;
    const { spent } = this.#spending;
    show({
      type: 'run_ended',
      reason,
      ...(because === null ? {} : { because }),
      seconds: spent.seconds,
      runDirectory,
    });
    // Stopped before there was a candidate, so there is nothing to return.
    if (!best) throw this.#options.signal?.aborted ? this.#options.signal.reason : budgetTooSmall(because);
    const texts = { ...this.#options.environment.texts, ...best.texts };
    const { candidates, iterations: done } = this.#log;
    return { texts, best, candidates, iterations: [...done], reason, because, runDirectory, spent };
  }

  /** Validates the environment's own texts. */
  async #begin(): Promise<void> {
    const { texts } = this.#options.environment;
    const validated = await this.#trials.validate(texts, 0);
    const { groups, counts } = validated;
    if (validated.rewards === null)
      throw new OptimizationError(
        'no_score',
        `${counts.failed + counts.cancelled} of ${counts.dispatched} rollouts with the environment's own texts did not ` +
          `complete, so candidates cannot be compared: ${commonFailures(groups)}. Fix the cause, or repeat failed ` +
          "rollouts with `groupStrategy: { type: 'retry', attempts: 3 }`, then continue with `resume`.",
      );
    const { rewards, success } = validated;
    const candidate = { number: 0, parent: null, texts, rewards, success };
    await this.#record(
      { iteration: 0, parent: null, scenarios: [], before: [] },
      { outcome: 'accepted', candidate },
    );
  }

  async #iterate(iteration: number, size: number): Promise<void> {
    const { scenarios, environment, seed = 0 } = this.#options;
    const { candidates } = this.#log;
    const draw = randomSource(deriveSeed(seed, drawSeed, iteration))();
    const parent =
      candidates[
        drawCandidate(
          candidates.map(({ rewards }) => rewards),
          draw,
        )
      ];
    if (!parent) throw new TypeError('There is no candidate.');
    const indices = minibatchOf(iteration - 1, {
      seed: deriveSeed(seed, minibatchSeed),
      size,
      scenarios: scenarios.length,
    });
    const minibatch = indices.flatMap((index) => scenarios.slice(index, index + 1));
    const work = { scenarios: minibatch, seed: deriveSeed(seed, rolloutSeed, iteration) };
    const before = await this.#trials.run(`before-${iteration}`, { ...work, texts: parent.texts });
    if (before.counts.completed === 0)
      throw new OptimizationError(
        'no_score',
        `No rollout of iteration ${iteration} completed: ${commonFailures(before.groups)}. Fix the cause, then ` +
          'continue with `resume`; these rollouts run again.',
      );
    const drawn = { iteration, parent: parent.number, scenarios: indices, before: rewardsOf(before) };
    if (before.perScenario.every(({ successes, rollouts }) => successes === rollouts))
      return this.#record(drawn, { outcome: 'solved' });

    const names = this.#options.texts ?? Object.keys(environment.texts);
    const text = nextText(names, parent.number, this.#log.iterations);
    const proposed = await this.#propose(iteration, {
      name: text,
      texts: parent.texts,
      groups: before.groups,
    });
    if (proposed === null || proposed === parent.texts[text]) {
      const because = proposed === null ? 'the answer has no new text' : 'the text is the same';
      return this.#record(drawn, { outcome: 'no_proposal', text, because });
    }
    const texts = { ...parent.texts, [text]: proposed };
    const tried = rewardsOf(await this.#trials.run(`after-${iteration}`, { ...work, texts }));
    const rejected: Found = { outcome: 'rejected', text, after: tried };
    const better = isBetter(drawn.before, tried);
    if (!better.isBetter) return this.#record(drawn, { ...rejected, because: better.because });
    const { rewards, success, groups } = await this.#trials.validate(texts, iteration);
    if (rewards === null)
      return this.#record(drawn, {
        ...rejected,
        because: `not all validation scenarios completed: ${commonFailures(groups)}`,
      });
    const candidate = { number: candidates.length, parent: parent.number, texts, rewards, success };
    return this.#record(drawn, { ...rejected, outcome: 'accepted', candidate });
  }

  /** The new text, asked for once. */
  async #propose(iteration: number, asked: Parameters<typeof reflectOn>[0]): Promise<string | null> {
    const { reflect, reflectTimeoutMs = defaults.reflectTimeoutMs, signal } = this.#options;
    const paid = this.#log.proposalOf(iteration);
    if (paid) {
      this.#spending.addReflection(paid.usage);
      return paid.proposed;
    }
    this.#trials.endIfDue();
    try {
      const reflection = await reflectOn(asked, { reflect, timeoutMs: reflectTimeoutMs, signal });
      this.#spending.addReflection(reflection.usage);
      await this.#append({ type: 'proposal', iteration, text: asked.name, ...reflection });
      return reflection.proposed;
    } catch (error) {
      this.#trials.endIfStopped();
      throw error;
    }
  }

  async #record(
    drawn: Pick<OptimizationIteration, 'iteration' | 'parent' | 'scenarios' | 'before'>,
    { text = null, because = null, after = [], candidate = null, outcome }: Found,
  ): Promise<void> {
    const { spent } = this.#spending;
    await this.#append({ type: 'iteration', ...drawn, text, outcome, because, after, candidate, spent });
    if (candidate && candidate === this.#best) await this.#writeBest(candidate);
    this.#note(lineOf({ ...drawn, text, outcome, because, candidate }));
  }

  async #append(record: OptimizationRecord): Promise<void> {
    await this.#log.append(record);
    this.#options.onEvent?.(record);
  }

  async #writeBest({ texts }: OptimizationCandidate): Promise<void> {
    const path = join(this.#directory.path, 'texts.json');
    await storing(path, () => writeAtomically(path, [`${JSON.stringify(texts, null, 2)}\n`]));
  }

  async #summarize(end: object): Promise<void> {
    const best = this.#best;
    // A run that was killed between a record and this file has an older one.
    if (best) await this.#writeBest(best);
    await this.#directory.settle();
    const { seconds } = this.#spending.spent;
    const { name } = this.#options.model;
    await this.#directory.write(runFiles.summary, {
      ...end,
      steps: Math.max(0, this.#finished),
      model: name,
      seconds,
      best: best?.number ?? null,
      spent: this.#spending.spent,
    });
  }

  /** Finished iterations, without the validation of the environment's own texts. */
  get #finished(): number {
    return Math.max(0, this.#log.iterations.length - 1);
  }

  get #best(): OptimizationCandidate | undefined {
    const { candidates } = this.#log;
    return candidates[bestOf(candidates.map(({ rewards }) => rewards))];
  }

  /** Whether the last iterations, a whole pass over the scenarios, had nothing to reflect on. */
  #isSolved(size: number): boolean {
    const pass = Math.ceil(this.#options.scenarios.length / size);
    const last = this.#log.iterations.slice(-pass);
    return last.length === pass && last.every(({ outcome }) => outcome === 'solved');
  }
}

const rewardsOf = ({ perScenario }: Evaluation): (number | null)[] => perScenario.map(({ reward }) => reward);

const budgetTooSmall = (because: string | null) =>
  new OptimizationError(
    'no_score',
    `The budget ended the run before the environment's own texts were validated: ${because}. Raise \`budget\`, then ` +
      'continue with `resume`.',
  );

function lineOf({
  iteration,
  parent,
  text,
  outcome,
  because,
  candidate,
}: Omit<OptimizationIteration, 'type' | 'spent' | 'scenarios' | 'before' | 'after'>): string {
  const what = outcome.replace('_', ' ');
  const score = candidate
    ? `candidate ${candidate.number}, reward ${meanOf(candidate.rewards).toFixed(3)}`
    : '';
  const of = parent === null ? '' : `${text === null ? '' : `"${text}" of `}candidate ${parent}: `;
  return `${iteration}. ${of}${[what, score, because].filter(Boolean).join(', ')}`;
}
