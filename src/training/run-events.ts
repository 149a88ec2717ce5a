import type { ProgressOption, RunListener } from '../progress/index.ts';
import { failureKinds, type RolloutGroup } from '../rollout/index.ts';
import { traceOf } from '../util/error.ts';
import { warn } from '../util/warning.ts';
import { newAlarms, RunDiagnosis } from './diagnosis/diagnose.ts';
import type { RunFigures } from './diagnosis/run-so-far.ts';

/**
 * Wraps a listener so that its errors cannot end the run. The first error becomes a warning
 * (`martingale_listener_failed`), and the listener keeps receiving events.
 */
function safeListener(listener: RunListener): RunListener {
  let hasFailed = false;
  return (event) => {
    const onThrown = (error: unknown) => {
      if (hasFailed) return;
      hasFailed = true;
      warn(
        'martingale_listener_failed',
        `onEvent threw at an event "${event.type}". The run continues; later errors are not shown. ${traceOf(error)}`,
      );
    };
    try {
      // An asynchronous listener rejects instead of throwing.
      const ended: unknown = listener(event);
      if (ended instanceof Promise) ended.catch(onThrown);
    } catch (error) {
      onThrown(error);
    }
  };
}

/** Maximum number of reported kinds: in one step or validation, and in a whole run. */
const maxKinds = { together: 3, inRun: 50 };
const maxMessageLength = 1000;

/**
 * Emits why rollouts failed, each kind of failure once per run. `of` says where the rollouts belong: the name of their
 * file in `trajectories/`, and the step, unless it is a validation.
 */
export type ReportFailures = (
  origin: { name: string; step?: number },
  groups: readonly RolloutGroup[],
) => void;

export function reportFailures(emit: RunListener): ReportFailures {
  const reported = new Set<string>();
  return (origin, groups) => {
    const failed = groups.map(({ rollouts }) => ({
      rollouts: rollouts.filter(({ status }) => status === 'failed'),
    }));
    const kinds = failureKinds(failed)
      .filter(({ code, at }) => reported.size < maxKinds.inRun && !reported.has(`${code} ${at}`))
      .slice(0, maxKinds.together)
      .map((kind) => ({ ...kind, message: kind.message.slice(0, maxMessageLength) }));
    for (const { code, at } of kinds) reported.add(`${code} ${at}`);
    if (kinds.length > 0) emit({ type: 'failures', ...origin, kinds });
  };
}

/**
 * Returns a function to call after each step and validation. It emits each alarm once, and none from before a resume.
 */
export function reportAlarms(
  figures: () => Pick<RunFigures, 'reports' | 'evaluations'>,
  stalenessBound: number,
  emit: RunListener,
): () => void {
  const diagnosis = new RunDiagnosis();
  const reported = diagnosis.next({ ...figures(), stalenessBound });
  return () => {
    for (const alarm of newAlarms(reported, diagnosis.next({ ...figures(), stalenessBound }))) {
      reported.push(alarm);
      emit({ type: 'alarm', ...alarm });
    }
  };
}

/**
 * Opens the view that `progress` selects. Its listener shows events and passes them to `onEvent`. Errors of `onEvent` have
 * no effect.
 */
export async function openView(
  progress: ProgressOption | undefined,
  title: string,
  onEvent: RunListener | undefined,
): Promise<Disposable & { listener: RunListener }> {
  // Views are loaded only if one is used.
  const view =
    progress === false ? null : (await import('../progress/index.ts')).openProgress(progress, { title });
  const listener = safeListener((event) => {
    // The view goes first, so that a warning about a throwing listener appears below the event.
    view?.listen(event);
    return onEvent?.(event);
  });
  return { listener, [Symbol.dispose]: () => view?.close() };
}
