import type { InferenceSession, Tensor } from 'onnxruntime-common';

/** Inputs of a graph, by name. */
export type Feeds = Record<string, Tensor>;

/** The numbers of a graph's `externalWeight`s, by name. A session copies them. */
export type ExternalWeights = ReadonlyMap<string, Float32Array>;

/** A loaded graph. */
export interface Session {
  /**
   * Returns the outputs by name. They are copies: onnxruntime-node copies every output after the run, even one that it
   * has written to a tensor of the caller, so that such tensors save nothing, and a cache is never an output.
   */
  run(feeds: Feeds): Promise<InferenceSession.OnnxValueMapType>;
  release(): Promise<void>;
}
