import { messageOf } from '../../../util/error.ts';
import { EngineError } from '../../engine.ts';
import type { Runtime } from '../runtime.ts';
import { attentionKind } from '../sampler/cached-attention.ts';
import { usualModel } from './random-model.ts';
import { testSampling } from './test-sampling.ts';
import { testTraining } from './test-training.ts';
import { type TestedModel, Trial, type TrialOptions, WrongNumbers } from './trial.ts';

/**
 * Runs the graphs that sample from a checkpoint and train it, on its first layers and a few tokens, and compares all that
 * they give with the same in float64 (see `exact-model.ts`): logits, probabilities, entropies, states, and the gradients
 * of an adapter. A runtime that falls back to another device, or has a faulty operator, computes something else without
 * an error. Takes as long as a few dozen tokens. Rejects with the signal's reason when it is aborted between two parts.
 *
 * @throws EngineError (`self_test_failed`) that names the runtime, the part, the difference and a remedy; `bad_checkpoint`
 * if the runtime is right with usual numbers in the same shapes.
 */
export async function selfTest(runtime: Runtime, model: TestedModel, signal?: AbortSignal): Promise<void> {
  const attention = attentionKind(model.architecture);
  const fault = await faultOf(runtime, model, { attention, signal });
  if (fault === null) return;
  if ((await faultOf(runtime, usualModel(model), { attention, signal })) !== null)
    throw new EngineError(
      'self_test_failed',
      `${model.id} was refused, because ${runtime.name} computes it wrongly on this device. The self-test found, in ${fault}. Choose another runtime (MARTINGALE_RUNTIME) or device, or run on another machine.`,
    );
  // In float32 no digits are left of numbers that are far too large or too small.
  throw new EngineError(
    'bad_checkpoint',
    `${model.id} has weights or settings that give wrong results here, in ${fault}, while ordinary numbers in the same shapes give right ones. Compare rms_norm_eps and the rotary settings of config.json, and the weights, with what was published.`,
  );
}

/** Which part a runtime computes wrongly; null if none. */
async function faultOf(runtime: Runtime, model: TestedModel, options: TrialOptions): Promise<string | null> {
  const trial = new Trial(runtime, model, options);
  try {
    await testSampling(trial);
    await testTraining(trial);
    return null;
  } catch (error) {
    options.signal?.throwIfAborted();
    if (EngineError.isInstance(error)) throw error;
    return error instanceof WrongNumbers ? error.message : `a graph cannot run: ${messageOf(error)}`;
  }
}
