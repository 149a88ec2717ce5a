import { type Span, SpanStatusCode } from '@opentelemetry/api';
import type { z } from 'zod';
import { attribute, errorType, genAi, recordRollout, spanName, withSpan } from '../telemetry/index.ts';
import type { Rollout } from './rollout.ts';
import type { RunRolloutOptions } from './run-rollout.ts';

type Task<Schema extends z.ZodType, Outcome> = Pick<
  RunRolloutOptions<Schema, Outcome>,
  'environment' | 'group' | 'index' | 'model'
>;

/** Runs a rollout within its span, and counts what came of it. */
export function inRolloutSpan<Schema extends z.ZodType, Outcome>(
  { environment, group, index, model }: Task<Schema, Outcome>,
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
