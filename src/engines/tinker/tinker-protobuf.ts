import { type ProtobufField, ProtobufWriter, protobufFields } from '../../util/protobuf.ts';

/** A sequence as the server trains it: at each position, the token that follows and what its loss depends on. */
export interface TinkerDatum {
  tokens: readonly number[];
  /** As many as `tokens`: the token after each. */
  targets: readonly number[];
  /** As many values as `tokens`, by name; none for a forward pass. */
  inputs: { weights: Float32Array; logprobs: Float32Array; advantages: Float32Array } | null;
}

/** Numbers of the fields and types of the protocol-buffer messages of the Tinker API 0.25. */
const float32 = 1;
const int64 = 2;

const bytesOf = (array: Int32Array | Float32Array | BigInt64Array) =>
  new Uint8Array(array.buffer, array.byteOffset, array.byteLength);

/** The message `Tensor`, of one dimension. */
function tensor(values: Float32Array | BigInt64Array): ProtobufWriter {
  const type = values instanceof Float32Array ? float32 : int64;
  const writer = new ProtobufWriter().bytes(1, bytesOf(values)).integer(3, type);
  return writer.integer(4, values.length);
}

function datumMessage({ tokens, targets, inputs }: TinkerDatum): ProtobufWriter {
  const text = new ProtobufWriter().bytes(1, bytesOf(Int32Array.from(tokens)));
  const writer = new ProtobufWriter().message(1, new ProtobufWriter().message(1, text));
  const tensors = { target_tokens: BigInt64Array.from(targets, BigInt), ...inputs };
  for (const [name, values] of Object.entries(tensors))
    writer.message(2, new ProtobufWriter().text(1, name).message(2, tensor(values)));
  return writer;
}

/** The message `ForwardBackwardRequest`. `sequence`: number of the model's request, from 1. */
export function passMessage(
  model: string,
  data: readonly TinkerDatum[],
  { loss, sequence, isForwardOnly }: { loss: string; sequence: number; isForwardOnly: boolean },
): Uint8Array {
  const writer = new ProtobufWriter().text(1, model).integer(2, sequence);
  for (const datum of data) writer.message(3, datumMessage(datum));
  writer.text(4, loss);
  if (isForwardOnly) writer.integer(6, 1);
  return writer.finish();
}

/** The fields of a message by number; of a field that occurs more than once, the last. */
function fieldsOf(message: Uint8Array): Map<number, ProtobufField> {
  return new Map([...protobufFields(message)].map((field) => [field.field, field]));
}

const textOf = (field: ProtobufField | undefined) => Buffer.from(field?.bytes ?? []).toString();

/** The values of a field; the copy makes them begin at a multiple of their size. */
const floatsOf = (bytes: Uint8Array) => new Float32Array(bytes.slice().buffer);
const integersOf = (bytes: Uint8Array) => new Int32Array(bytes.slice().buffer);

/**
 * Reads the message `ForwardBackwardOutput`: the log-probabilities of the targets of each datum, in order.
 *
 * @throws RangeError when it is not such a message.
 */
export function readPass(message: Uint8Array): Float32Array[] {
  for (const { field, bytes } of protobufFields(message)) {
    if (field !== 2) continue;
    for (const { field: inner, bytes: entry } of protobufFields(bytes)) {
      if (inner !== 2) continue;
      const [key, value] = [fieldsOf(entry).get(1), fieldsOf(entry).get(2)];
      if (textOf(key) !== 'logprobs' || !value) continue;
      const batched = fieldsOf(value.bytes);
      const data = batched.get(1)?.bytes ?? new Uint8Array();
      const offsets = new BigInt64Array((batched.get(2)?.bytes ?? new Uint8Array()).slice().buffer);
      return Array.from({ length: Math.max(0, offsets.length - 1) }, (_, index) =>
        floatsOf(data.subarray(Number(offsets[index]), Number(offsets[index + 1]))),
      );
    }
  }
  throw new RangeError('the result of a pass has no log-probabilities');
}

export interface TinkerReply {
  /** Why it ended: at a stop token, which is its last, or at the largest number of tokens. */
  finishReason: 'stop' | 'length';
  tokens: Int32Array;
  /** Of each token, under the model's distribution at temperature 1. */
  logprobs: Float32Array;
}

export interface TinkerSample {
  replies: TinkerReply[];
  /** Of the prompt's tokens; null if not requested. */
  promptLogprobs: Float32Array | null;
  cachedTokens: number;
}

/**
 * Reads the message `SampleResponse`.
 *
 * @throws RangeError when it is not such a message.
 */
export function readSample(message: Uint8Array): TinkerSample {
  const sample: TinkerSample = { replies: [], promptLogprobs: null, cachedTokens: 0 };
  for (const { field, integer, bytes } of protobufFields(message)) {
    if (field === 1) {
      const reply = fieldsOf(bytes);
      const tokens = integersOf(reply.get(2)?.bytes ?? new Uint8Array());
      const logprobs = floatsOf(reply.get(3)?.bytes ?? new Uint8Array());
      if (logprobs.length !== tokens.length)
        throw new RangeError(`a reply has ${tokens.length} tokens and ${logprobs.length} log-probabilities`);
      const finishReason = (reply.get(1)?.integer ?? 0n) === 0n ? 'stop' : 'length';
      sample.replies.push({ finishReason, tokens, logprobs });
    }
    if (field === 2) sample.promptLogprobs = floatsOf(bytes);
    if (field === 4) sample.cachedTokens = Number(integer);
  }
  return sample;
}
