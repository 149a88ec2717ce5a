import { EngineError } from '../../engine.ts';

/** The error for a checkpoint that is broken: files that are missing, cut off or contradict each other. */
export const badCheckpoint = (problem: string): EngineError => new EngineError('bad_checkpoint', problem);
