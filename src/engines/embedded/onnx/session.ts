import type { InferenceSession, Tensor } from 'onnxruntime-common';

/** Inputs of a graph, by name. */
export type Feeds = Record<string, Tensor>;

/** The numbers of a graph's `externalWeight`s, by name. A session copies them. */
export type ExternalWeights = ReadonlyMap<string, Float32Array>;

/** Options that all sessions share. Only errors are logged. */
export const sessionOptions = {
  interOpNumThreads: 1,
  executionMode: 'sequential',
  graphOptimizationLevel: 'all',
  logSeverityLevel: 3,
} as const;

/** A loaded graph. */
export interface Session {
  /**
   * Returns the outputs by name. onnxruntime-node copies every output after the run, so a cache is never an output. An output
   * that it has written to one of the tensors `outputs`, which `Runtime.outputs` makes, is copied too, but not kept twice.
   */
  run(feeds: Feeds, outputs?: Feeds): Promise<InferenceSession.OnnxValueMapType>;
  release(): Promise<void>;
}
