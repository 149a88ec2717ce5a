import type { ProgressOption, RunListener } from '../progress/index.ts';
import { failureKinds, type RolloutGroup } from '../rollout/index.ts';
import { newAlarms, RunDiagnosis } from './diagnosis/diagnose.ts';
import type { RunFigures } from './diagnosis/run-so-far.ts';

/**
 * A listener that cannot end the run that it watches: the first thing that it throws is warned about
 * (`martingale_listener_failed`), and it goes on being told.
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
      // One that is asynchronous fails later.
      const ended: unknown = listener?.(event);
      if (ended instanceof Promise) ended.catch(tell);
    } catch (error) {
      tell(error);
    }
  };
}

/** Of one step or validation, and of a run. */
const mostKinds = { together: 3, inRun: 50 };
const longestMessage = 1000;

/** What the rollouts were of: the name of their file in `trajectories/`, and the step where it is no validation. */
interface Told {
  name: string;
  step?: number;
}

/** Says why rollouts failed, each kind of failure once a run. */
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

/** Tells of each alarm once, when it is called after a step or a validation; what the run began with is known. */
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

/** Shows events as `progress` asks for it, and passes them on. */
export async function openView(
  progress: ProgressOption | undefined,
  title: string,
  onEvent: RunListener | undefined,
): Promise<{ listener: RunListener | undefined; close: () => void }> {
  // The views are loaded only where one is wanted.
  const view =
    progress === false ? null : (await import('../progress/index.ts')).openProgress(progress, { title });
  if (!view) return { listener: onEvent, close: () => undefined };
  const listener: RunListener = (event) => {
    // The view first: a warning about a listener that throws stands below the event.
    view.listen(event);
    return onEvent?.(event);
  };
  return { listener, close: view.close };
}
