import type { RunListener } from '../progress/index.ts';
import { newAlarms, RunDiagnosis, type RunFigures } from './diagnosis/index.ts';

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
