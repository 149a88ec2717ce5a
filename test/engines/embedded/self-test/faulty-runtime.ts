import type { Runtime } from '../../../../src/engines/embedded/runtime.ts';
import { ProtobufWriter } from '../../../../src/util/protobuf.ts';

/** A field of a protocol-buffer message. */
interface Field {
  number: number;
  value: bigint | Uint8Array;
}

/** Numbers of fields in onnx.proto. */
const field = { graph: 7, node: 1, initializer: 5, input: 1, output: 2, operator: 4 } as const;

/** A runtime in which one output of an operator is multiplied by a factor, wherever it is used. */
export function faultyRuntime(
  runtime: Runtime,
  fault: { operator: string; output?: number; factor: number },
): Runtime {
  return { ...runtime, session: (model, weights) => runtime.session(withFault(model, fault), weights) };
}

function withFault(
  model: Uint8Array,
  { operator, output = 0, factor }: { operator: string; output?: number; factor: number },
): Uint8Array {
  return rewrite(model, ({ number, value }) => {
    if (number !== field.graph) return [{ number, value }];
    const graph = rewrite(value as Uint8Array, (part) => {
      if (part.number !== field.node) return [part];
      const node = fieldsOf(part.value as Uint8Array);
      const name = node.filter((one) => one.number === field.output)[output];
      const isFaulty = node.some((one) => one.number === field.operator && textOf(one) === operator);
      if (!isFaulty || !name) return [part];
      const right = `${textOf(name)}.right`;
      const wrong = node.map((one) => (one === name ? { ...one, value: Buffer.from(right) } : one));
      const product = new ProtobufWriter().text(field.input, right).text(field.input, 'fault');
      return [
        { number: field.node, value: write(wrong) },
        {
          number: field.node,
          value: product.text(field.output, textOf(name)).text(field.operator, 'Mul').finish(),
        },
      ];
    });
    const bytes = new Uint8Array(Float32Array.of(factor).buffer);
    const scalar = new ProtobufWriter().integer(2, 1).text(8, 'fault').bytes(9, bytes);
    return [{ number, value: Buffer.concat([graph, new ProtobufWriter().message(5, scalar).finish()]) }];
  });
}

const textOf = ({ value }: Field) => Buffer.from(value as Uint8Array).toString();

const rewrite = (message: Uint8Array, change: (field: Field) => Field[]) =>
  write(fieldsOf(message).flatMap(change));

function write(fields: readonly Field[]): Uint8Array {
  const writer = new ProtobufWriter();
  for (const { number, value } of fields)
    if (typeof value === 'bigint') writer.integer(number, value);
    else writer.bytes(number, value);
  return writer.finish();
}

/** The fields of a message with numbers and messages only: of a model, a graph and a node. */
function fieldsOf(message: Uint8Array): Field[] {
  const fields: Field[] = [];
  let at = 0;
  const varint = () => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = message[at++] as number;
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return value;
    }
  };
  while (at < message.length) {
    const key = Number(varint());
    if ((key & 7) === 0) fields.push({ number: key >> 3, value: varint() });
    else {
      const end = Number(varint()) + at;
      fields.push({ number: key >> 3, value: message.subarray(at, end) });
      at = end;
    }
  }
  return fields;
}
