import { type Span, SpanStatusCode } from '@opentelemetry/api';
import type { RolloutModel } from '../model/index.ts';
import { attribute, errorType, genAi, recordRollout, spanName, withSpan } from '../telemetry/index.ts';
import type { Rollout } from './rollout.ts';

/** What the span of a rollout says about it before it runs. */
interface SpannedRollout {
  environment: { name: string };
  group: number;
  index: number;
  model: Pick<RolloutModel, 'step'>;
}

/** Runs a rollout within its span, and records its outcome in span and metrics. */
export function inRolloutSpan<Outcome>(
  { environment, group, index, model }: SpannedRollout,
  run: () => Promise<Rollout<Outcome>>,
): Promise<Rollout<Outcome>> {
  const attributes = {
    [genAi.operationName]: 'invoke_agent',
    [genAi.agentName]: environment.name,
    [attribute.groupIndex]: group,
    [attribute.rolloutIndex]: index,
    [attribute.policyVersion]: model.step,
  };
  return withSpan(spanName.rollout, attributes, async (span) => {
    const rollout = await run();
    describeRollout(span, rollout);
    return rollout;
  });
}

function describeRollout(span: Span, rollout: Rollout): void {
  const { status: outcome, durationMs, trajectory } = rollout;
  span.setAttribute(attribute.rolloutOutcome, outcome);
  span.setAttribute(genAi.conversationId, trajectory.id);
  if (rollout.status === 'completed') {
    span.setAttribute(attribute.reward, rollout.reward);
    recordRollout({ outcome, durationMs });
    return;
  }
  const { code, message } = rollout.failure;
  span.setAttribute(errorType, code);
  span.setStatus({ code: SpanStatusCode.ERROR, message });
  recordRollout({ outcome, durationMs, reason: code });
}
