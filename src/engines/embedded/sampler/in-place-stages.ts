import { finalNormTensor, kernelPart } from '../checkpoint/tensors.ts';
import { decodingGraph } from '../graphs/decoding-graphs.ts';
import { InPlaceProducts } from '../graphs/products.ts';
import {
  adapterParts,
  type BaseWeights,
  headOf,
  partFeeds,
  weightFeeds,
  weightOf,
} from '../runner/layer-feeds.ts';
import type { Runtime, Session } from '../runtime.ts';
import { kindOf } from '../weights/architecture.ts';
import {
  type DecodedAdapter,
  type DecodingStage,
  type DecodingStages,
  rotaryFeeds,
  split,
  takesPositions,
} from './decoding-stages.ts';

/** The stages of a checkpoint with an adapter, or without one if it is null. Its weights are read where they are in memory. */
export async function inPlaceStages(
  runtime: Runtime,
  base: BaseWeights,
  adapter: DecodedAdapter | null,
): Promise<DecodingStages> {
  const { architecture } = base;
  const vector = adapter?.vector;
  const lora = vector
    ? { targets: adapter.lora.targets, scale: adapter.lora.alpha / adapter.lora.rank }
    : { targets: [], scale: 1 };
  const sessions = new Map<string, Session>();
  /** Layers of the same kinds share a session: `layer` is the one that it mixes, -1 for the first stage. */
  const sessionOf = async (layer: number): Promise<Session> => {
    const next = layer + 1 < architecture.layers ? kindOf(architecture, layer + 1) : 'head';
    const key = `${layer < 0 ? 'tokens' : kindOf(architecture, layer)} ${next}`;
    const session =
      sessions.get(key) ??
      (await runtime.session(
        decodingGraph(
          architecture,
          {
            device: runtime.device,
            attention: 'padded',
            products: (graph) => new InPlaceProducts(graph, architecture, lora),
          },
          layer < 0 ? 'first' : layer,
        ),
      ));
    sessions.set(key, session);
    return session;
  };
  const { vocabularySize, width } = architecture;
  const rotary = rotaryFeeds(runtime, base);
  const norm = runtime.constant(weightOf(base, finalNormTensor(architecture)), [width]);
  const head = runtime.constant(weightOf(base, headOf(architecture)), [vocabularySize, width]);
  const layers = Array.from({ length: architecture.layers }, (_, layer) => {
    const { [kernelPart]: _kernels, ...weights } = weightFeeds(runtime, base, layer);
    const added = vector ? partFeeds(runtime, adapterParts(architecture, adapter.lora, layer), vector) : {};
    return split({ ...weights, ...added });
  });
  const stages: DecodingStage[] = [];
  for (let layer = -1; layer < architecture.layers; layer++) {
    const next = layers[layer + 1];
    stages.push({
      session: await sessionOf(layer),
      weights: {
        ...layers[layer]?.after,
        ...(next ? { ...rotary[layer + 1], ...next.before } : { norm, head }),
      },
      takesPositions: takesPositions(architecture, layer + 1),
    });
  }
  const release = async () => {
    for (const session of sessions.values()) await session.release();
  };
  return { stages, release };
}
