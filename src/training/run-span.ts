import type { Span } from '@opentelemetry/api';
import { formatModelName, parseModelName } from '../contract/index.ts';
import type { ModelHandle } from '../model/index.ts';
import type { StepReport } from '../progress/index.ts';
import { attribute } from '../telemetry/index.ts';
import type { TrainSettings } from './train-options.ts';

/** What a run trains, on its span. A handle does not say its base model: the service is asked, where a span is recorded. */
export async function describeRun(
  span: Span,
  model: ModelHandle,
  options: Pick<TrainSettings<never, unknown>, 'signal'> & { model: object },
): Promise<void> {
  if (!span.isRecording()) return;
  span.setAttribute(attribute.modelName, withoutStep(model));
  if (model.id === undefined) return;
  span.setAttribute(attribute.modelId, model.id);
  const asked = 'baseModel' in options.model ? options.model.baseModel : undefined;
  const baseModel = typeof asked === 'string' ? asked : await baseModelOf(model, options.signal);
  if (baseModel !== undefined) span.setAttribute(attribute.baseModel, baseModel);
}

/** A run does not fail for an attribute that cannot be had. */
async function baseModelOf(model: ModelHandle, signal: AbortSignal | undefined): Promise<string | undefined> {
  if (model.id === undefined) return undefined;
  return model.client.models.get(model.id, { signal }).then(
    ({ base_model: baseModel }) => baseModel,
    () => undefined,
  );
}

/** What came of a step, on its span. */
export function describeStep(span: Span, { reward, success }: StepReport): void {
  span.setAttribute(attribute.reward, reward);
  if (success !== null) span.setAttribute(attribute.success, success);
}

/** `entity/project/name` of a model, whichever its step. */
export function withoutStep({ name }: ModelHandle): string {
  const parsed = parseModelName(name);
  return parsed
    ? formatModelName({ entity: parsed.entity, project: parsed.project, name: parsed.name })
    : name;
}
