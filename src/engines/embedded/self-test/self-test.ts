import { EngineError } from '../../engine.ts';
import type { Runtime } from '../runtime.ts';
import { testSampling } from './test-sampling.ts';
import { testTraining } from './test-training.ts';
import { type TestedModel, Trial } from './trial.ts';

/**
 * Runs the graphs that sample from a checkpoint and train it, on its first layers and a few tokens, and compares all that
 * they give with the same in float64 (see `exact-model.ts`): logits, probabilities, entropies, states, and the gradients
 * of an adapter. A runtime that falls back to another device, or has a faulty operator, computes something else without
 * an error. Takes as long as a few dozen tokens.
 *
 * @throws EngineError (`self_test_failed`) that names the runtime, the part, the difference and a remedy.
 */
export async function selfTest(runtime: Runtime, model: TestedModel): Promise<void> {
  const trial = new Trial(runtime, model);
  try {
    await testSampling(trial);
    await testTraining(trial);
  } catch (error) {
    if (EngineError.isInstance(error)) throw error;
    throw trial.failure(`a graph cannot run: ${error instanceof Error ? error.message : String(error)}`);
  }
}
