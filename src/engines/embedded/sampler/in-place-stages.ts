import { checkpointDecodingGraph } from '../graphs/checkpoint-decoding-graphs.ts';
import { InPlaceProducts } from '../graphs/products.ts';
import { type AdapterVector, adapterFeeds, type LoraBase, weightFeeds } from '../lora/layer-feeds.ts';
import type { Feeds, Runtime, Session } from '../runtime.ts';
import { type DecodingStage, type DecodingStages, sharedFeeds, split } from './decoding-stages.ts';

/** The stages of a checkpoint with an adapter, or without one if it is null. Its weights are read where they are in memory. */
export async function inPlaceStages(
  runtime: Runtime,
  base: LoraBase,
  adapter: AdapterVector | null,
): Promise<DecodingStages> {
  const { architecture } = base;
  const lora = adapter
    ? { targets: adapter.lora.targets, scale: adapter.lora.alpha / adapter.lora.rank }
    : { targets: [], scale: 1 };
  const sessionOf = (part: 'first' | number) =>
    runtime.session(
      checkpointDecodingGraph(
        architecture,
        runtime.device,
        (graph) => new InPlaceProducts(graph, architecture, lora),
        part,
      ),
    );
  const first = await sessionOf('first');
  const middle = architecture.layers > 1 ? await sessionOf(0) : null;
  const last = await sessionOf(architecture.layers - 1);
  const { embedding, rotary, norm, head } = sharedFeeds(runtime, base);
  const layers = Array.from({ length: architecture.layers }, (_, layer) => {
    const weights = weightFeeds(runtime, base, layer);
    const added = adapter ? adapterFeeds(runtime, architecture, adapter, layer) : {};
    return split({ ...weights, ...added });
  });
  const stageOf = (session: Session, ...weights: (Feeds | undefined)[]): DecodingStage => ({
    session,
    weights: Object.assign({}, ...weights),
    takesPositions: session !== last,
  });
  const stages = [
    stageOf(first, { embedding }, rotary[0], layers[0]?.before),
    ...layers.map(({ after }, layer) => {
      const next = layers[layer + 1];
      return next && middle
        ? stageOf(middle, after, rotary[layer + 1], next.before)
        : stageOf(last, after, { norm, head });
    }),
  ];
  const release = async () => {
    for (const session of [first, middle, last]) await session?.release();
  };
  return { stages, release };
}
