import type { RunListener } from '../progress/index.ts';
import { diagnose, newAlarms, type RunFigures } from './diagnosis/index.ts';

/** Tells of each alarm once, when it is called after a step or a validation; what the run began with is known. */
export function alarmTeller(
  figures: () => Pick<RunFigures, 'reports' | 'evaluations'>,
  stalenessBound: number,
  emit: RunListener,
): () => void {
  const told = diagnose({ ...figures(), stalenessBound });
  return () => {
    for (const alarm of newAlarms(told, diagnose({ ...figures(), stalenessBound }))) {
      told.push(alarm);
      emit({ type: 'alarm', ...alarm });
    }
  };
}
