import type { InferenceSession } from 'onnxruntime-common';
import type { Graph, Value } from '../onnx/graph.ts';
import type { LogitRows } from '../sampling/distribution.ts';

/** Makes logits [rows, vocabulary] the outputs of a graph that `LogitRows` names. */
export function outputLogits(graph: Graph, logits: Value, [rows, vocabulary]: [string, number]): void {
  const largest = graph.op('ReduceMax', [logits, graph.integers(-1)], { keepdims: 1 });
  graph.output('likelihoods', graph.op('Exp', [graph.op('Sub', [logits, largest])]), [rows, vocabulary]);
  graph.output('largest', largest, [rows, 1]);
  graph.output('logits', logits, [rows, vocabulary]);
}

/** The logits among the outputs of a run. */
export function logitRowsOf(outputs: InferenceSession.OnnxValueMapType): LogitRows {
  const values = (name: keyof LogitRows) => outputs[name]?.data as Float32Array;
  return { logits: values('logits'), largest: values('largest'), likelihoods: values('likelihoods') };
}
