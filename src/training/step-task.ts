import type { z } from 'zod';
import type { ModelHandle } from '../model/index.ts';
import type { GroupsResult } from '../rollout/index.ts';
import { attribute, spanName, withSpan } from '../telemetry/index.ts';
import { type AdmittedStep, gatherStep } from './gather-step.ts';
import type { RunContext } from './run-context.ts';
import { describeStep } from './run-span.ts';
import { startStopwatch } from './stopwatch.ts';
import { type TrainStepResult, trainStep } from './train-step.ts';

/** A step on its way: its rollouts begin at once, and it trains when its turn comes. */
export class StepTask<Schema extends z.ZodType, Outcome> {
  readonly step: number;
  readonly scenarios: AdmittedStep<Schema>['scenarios'];
  /** Settles when all its rollouts have ended. */
  readonly gathered: Promise<GroupsResult<z.output<Schema>>>;
  readonly #turn = Promise.withResolvers<ModelHandle | null>();
  readonly #done: Promise<TrainStepResult | null>;

  constructor(context: RunContext<Schema, Outcome>, admitted: AdmittedStep<Schema>) {
    this.step = admitted.step;
    this.scenarios = admitted.scenarios;
    const gathered = Promise.withResolvers<GroupsResult<z.output<Schema>>>();
    this.gathered = gathered.promise;
    const { step, model: sampled } = admitted;
    const clock = startStopwatch();
    const attributes = { [attribute.step]: step, [attribute.policyVersion]: sampled.step };
    this.#done = withSpan(spanName.step, attributes, async (span) => {
      gatherStep(context, admitted).then(gathered.resolve, gathered.reject);
      const [rollouts, model] = await Promise.all([this.gathered, this.#turn.promise]);
      if (!model) return null;
      const result = await trainStep({ context, step, sampled, model, rollouts, elapsed: clock.total });
      describeStep(span, result.report);
      return result;
    });
    // Both are awaited later, or never where the run ends before.
    this.gathered.catch(() => undefined);
    this.#done.catch(() => undefined);
  }

  /** @param model Pinned to the newest checkpoint. */
  async train(model: ModelHandle): Promise<TrainStepResult> {
    this.#turn.resolve(model);
    const result = await this.#done;
    if (!result) throw new TypeError(`Step ${this.step} was given up before its turn.`);
    return result;
  }

  /** The run ends without it: what its rollouts came to, once the run's signal has ended them. */
  cancelPending(): Promise<GroupsResult<z.output<Schema>>> {
    this.#turn.resolve(null);
    return this.gathered;
  }
}
