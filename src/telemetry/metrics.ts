import { type Attributes, type Meter, type MeterProvider, metrics } from '@opentelemetry/api';
import { sumOf } from '../util/sums.ts';
import { martingaleVersion } from '../util/version.ts';
import { attribute, errorType, genAi } from './names.ts';
import { errorKind, instrumentationName, observeEnd } from './span.ts';

/** Names of the metrics. The first two are OpenTelemetry's for generative AI; see `names.ts`. */
export const metricName = {
  /** Seconds. */
  operationDuration: 'gen_ai.client.operation.duration',
  tokenUsage: 'gen_ai.client.token.usage',
  /** Rollouts by outcome; failed ones also by reason. */
  rollouts: 'martingale.rollouts',
  /** Seconds. */
  rolloutDuration: 'martingale.rollout.duration',
  reward: 'martingale.reward',
  /** Seconds. */
  toolDuration: 'martingale.tool.duration',
  callsInFlight: 'martingale.model.calls_in_flight',
  stepReward: 'martingale.step.reward',
  stepEntropy: 'martingale.step.entropy',
  /** Mean number of checkpoints between the policy that sampled and the one that was trained. */
  stepStaleness: 'martingale.step.staleness',
  /** Share of groups with a signal. */
  stepSignalShare: 'martingale.step.signal_share',
  /** Share of tool calls with an error; absent for steps without tool calls. */
  stepToolErrorShare: 'martingale.step.tool_error_share',
  /** Rollouts that reached the end of the model's context. */
  stepContextOverflows: 'martingale.step.context_overflows',
  steps: 'martingale.steps',
} as const;

function makeInstruments(meter: Meter) {
  return {
    operationDuration: meter.createHistogram(metricName.operationDuration, { unit: 's' }),
    tokenUsage: meter.createHistogram(metricName.tokenUsage, { unit: '{token}' }),
    rollouts: meter.createCounter(metricName.rollouts, { unit: '{rollout}' }),
    rolloutDuration: meter.createHistogram(metricName.rolloutDuration, { unit: 's' }),
    reward: meter.createHistogram(metricName.reward),
    toolDuration: meter.createHistogram(metricName.toolDuration, { unit: 's' }),
    callsInFlight: meter.createUpDownCounter(metricName.callsInFlight, { unit: '{call}' }),
    stepReward: meter.createGauge(metricName.stepReward),
    stepEntropy: meter.createGauge(metricName.stepEntropy, { unit: 'nat' }),
    stepStaleness: meter.createGauge(metricName.stepStaleness, { unit: '{checkpoint}' }),
    stepSignalShare: meter.createGauge(metricName.stepSignalShare),
    stepToolErrorShare: meter.createGauge(metricName.stepToolErrorShare),
    stepContextOverflows: meter.createGauge(metricName.stepContextOverflows, { unit: '{rollout}' }),
    steps: meter.createCounter(metricName.steps, { unit: '{step}' }),
  };
}

let cached: { provider: MeterProvider; instruments: ReturnType<typeof makeInstruments> } | undefined;

/** Made again for a new provider: an SDK may be registered after this module is loaded. */
function instruments(): ReturnType<typeof makeInstruments> {
  const provider = metrics.getMeterProvider();
  if (cached?.provider !== provider) {
    const meter = provider.getMeter(instrumentationName, martingaleVersion);
    cached = { provider, instruments: makeInstruments(meter) };
  }
  return cached.instruments;
}

/**
 * Records a rollout that has ended; `reason` is the code of its failure. Without an OpenTelemetry SDK, this function and
 * the others here do nothing.
 */
export function recordRollout(rollout: {
  outcome: 'completed' | 'failed' | 'cancelled';
  reason?: string;
  durationMs: number;
}): void {
  const attributes: Attributes = { [attribute.rolloutOutcome]: rollout.outcome };
  if (rollout.reason !== undefined) attributes[errorType] = rollout.reason;
  const { rollouts, rolloutDuration } = instruments();
  rollouts.add(1, attributes);
  rolloutDuration.record(rollout.durationMs / 1000, attributes);
}

/** Counts a model call that starts (1) or ends (-1). */
export function countModelCall(change: 1 | -1, { provider, model }: ModelCallLabels): void {
  instruments().callsInFlight.add(change, labels(provider, model));
}

interface ModelCallLabels {
  provider: string;
  model: string;
}

/** Records a model call that has ended; `error` is the code or class of its error. */
export function recordModelCall(
  call: ModelCallLabels & { durationMs: number; error?: string | undefined },
): void {
  const attributes = labels(call.provider, call.model);
  if (call.error !== undefined) attributes[errorType] = call.error;
  instruments().operationDuration.record(call.durationMs / 1000, attributes);
}

/** Records the tokens of an answered model call. */
export function recordTokens(
  call: ModelCallLabels & { promptTokens: number; completionTokens: number },
): void {
  const attributes = labels(call.provider, call.model);
  const { tokenUsage } = instruments();
  tokenUsage.record(call.promptTokens, { ...attributes, [genAi.tokenType]: 'input' });
  tokenUsage.record(call.completionTokens, { ...attributes, [genAi.tokenType]: 'output' });
}

function labels(provider: string, model: string): Attributes {
  return { [genAi.operationName]: 'chat', [genAi.providerName]: provider, [genAi.requestModel]: model };
}

/** Records the value of one reward for a rollout. */
export function recordReward({ name, value }: { name: string; value: number }): void {
  instruments().reward.record(value, { [attribute.rewardName]: name });
}

/** Runs a tool and records its duration, until its promise settles, with the code or class of its error. */
export function timeTool<Result>(name: string, run: () => Result): Result {
  const startedMs = performance.now();
  return observeEnd(run, (failure) => {
    const attributes: Attributes = { [genAi.toolName]: name };
    if (failure) attributes[errorType] = errorKind(failure.error);
    instruments().toolDuration.record((performance.now() - startedMs) / 1000, attributes);
  });
}

/** Labels that separate the gauges of runs in one process or one backend. */
interface RunLabels {
  runId: string;
  environment: string;
  /** Name of the model, without a step. */
  model: string;
}

/** Records the numbers of a finished step. */
export function recordStep(
  step: {
    reward: number;
    entropy: number | null;
    staleness: number;
    groups: number;
    groupsWithSignal: number;
    tools: Record<string, { uses: number; errors: number }>;
    contextOverflows: number;
  },
  { runId, environment, model }: RunLabels,
): void {
  const instrument = instruments();
  const attributes = {
    [attribute.runId]: runId,
    [attribute.environment]: environment,
    [attribute.modelName]: model,
  };
  instrument.steps.add(1, attributes);
  instrument.stepReward.record(step.reward, attributes);
  if (step.entropy !== null) instrument.stepEntropy.record(step.entropy, attributes);
  instrument.stepStaleness.record(step.staleness, attributes);
  instrument.stepSignalShare.record(step.groups === 0 ? 0 : step.groupsWithSignal / step.groups, attributes);
  instrument.stepContextOverflows.record(step.contextOverflows, attributes);
  const tools = Object.values(step.tools);
  const uses = sumOf(tools, (tool) => tool.uses);
  const errors = sumOf(tools, (tool) => tool.errors);
  if (uses > 0) instrument.stepToolErrorShare.record(errors / uses, attributes);
}
