import type { Span } from '@opentelemetry/api';
import { genAi, recordRollout } from '../telemetry/index.ts';
import type { Rollout } from './rollout.ts';

/** What a rollout came to, on its span and in the metrics. */
export function describeRollout(span: Span, rollout: Rollout): void {
  span.setAttribute(genAi.operationName, 'invoke_agent');
  span.setAttribute(genAi.conversationId, rollout.trajectory.id);
  recordRollout({
    ...{ outcome: rollout.status, durationMs: rollout.durationMs },
    ...(rollout.status === 'completed' ? {} : { reason: rollout.failure.code }),
  });
}
