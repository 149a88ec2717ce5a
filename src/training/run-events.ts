import type { ProgressOption, RunListener } from '../progress/index.ts';
import { failureKinds, type RolloutGroup } from '../rollout/index.ts';
import { newAlarms, RunDiagnosis } from './diagnosis/diagnose.ts';
import type { RunFigures } from './diagnosis/run-so-far.ts';

/**
 * Wraps a listener so that its errors cannot end the run. The first error becomes a warning
 * (`martingale_listener_failed`), and the listener keeps receiving events.
 */
export function safeListener(listener: RunListener | undefined): RunListener {
  let hasFailed = false;
  return (event) => {
    const tell = (error: unknown) => {
      if (hasFailed) return;
      hasFailed = true;
      const what = error instanceof Error ? (error.stack ?? error.message) : String(error);
      process.emitWarning(
        `onEvent threw at an event "${event.type}". The run goes on; what it throws later is not shown. ${what}`,
        { code: 'martingale_listener_failed' },
      );
    };
    try {
      // An asynchronous listener rejects instead of throwing.
      const ended: unknown = listener?.(event);
      if (ended instanceof Promise) ended.catch(tell);
    } catch (error) {
      tell(error);
    }
  };
}

/** Maximum number of reported kinds: in one step or validation, and in a whole run. */
const mostKinds = { together: 3, inRun: 50 };
const longestMessage = 1000;

/** Where the rollouts belong: the name of their file in `trajectories/`, and the step, unless it is a validation. */
interface Told {
  name: string;
  step?: number;
}

/** Emits why rollouts failed, each kind of failure once per run. */
export type FailureTeller = (of: Told, groups: readonly RolloutGroup[]) => void;

export function failureTeller(emit: RunListener): FailureTeller {
  const told = new Set<string>();
  return (of, groups) => {
    const failed = groups.map(({ rollouts }) => ({
      rollouts: rollouts.filter(({ status }) => status === 'failed'),
    }));
    const kinds = failureKinds(failed)
      .filter(({ code, at }) => told.size < mostKinds.inRun && !told.has(`${code} ${at}`))
      .slice(0, mostKinds.together)
      .map((kind) => ({ ...kind, message: kind.message.slice(0, longestMessage) }));
    for (const { code, at } of kinds) told.add(`${code} ${at}`);
    if (kinds.length > 0) emit({ type: 'failures', ...of, kinds });
  };
}

/**
 * Returns a function to call after each step and validation. It emits each alarm once, and none from before a resume.
 */
export function alarmTeller(
  figures: () => Pick<RunFigures, 'reports' | 'evaluations'>,
  stalenessBound: number,
  emit: RunListener,
): () => void {
  const diagnosis = new RunDiagnosis();
  const told = diagnosis.next({ ...figures(), stalenessBound });
  return () => {
    for (const alarm of newAlarms(told, diagnosis.next({ ...figures(), stalenessBound }))) {
      told.push(alarm);
      emit({ type: 'alarm', ...alarm });
    }
  };
}

/** Opens the view that `progress` selects. The returned listener shows events and passes them on. */
export async function openView(
  progress: ProgressOption | undefined,
  title: string,
  onEvent: RunListener | undefined,
): Promise<{ listener: RunListener | undefined; close: () => void }> {
  // Views are loaded only if one is used.
  const view =
    progress === false ? null : (await import('../progress/index.ts')).openProgress(progress, { title });
  if (!view) return { listener: onEvent, close: () => undefined };
  const listener: RunListener = (event) => {
    // The view goes first, so that a warning about a throwing listener appears below the event.
    view.listen(event);
    return onEvent?.(event);
  };
  return { listener, close: view.close };
}
