import { getOrInsert } from '../../../util/get-or-insert.ts';
import { ProtobufWriter } from '../../../util/protobuf.ts';

/** Numbers of the element types in ONNX files. */
const elementType = { float32: 1, int64: 7 } as const;
type ElementType = keyof typeof elementType;

/** The place of numbers that are not in the file, `TensorProto.DataLocation`. */
const externalLocation = 1;

/** The name of a value in a graph. */
export type Value = string;
type Attribute = number | string | readonly number[] | { float: number };
type Attributes = Record<string, Attribute>;
export type Dimensions = readonly (number | string)[];

/** Versions of the format. Field numbers below are from onnx.proto, IR version 10. */
const opset = 21;
const irVersion = 10;
const contribDomain = 'com.microsoft';

/** Builds an ONNX model node by node. Dimensions given as text are symbolic: one session serves every size. */
export class Graph {
  #nodes: Node[] = [];
  #initializers: ProtobufWriter[] = [];
  #inputs: ProtobufWriter[] = [];
  #outputs: ProtobufWriter[] = [];
  /** Constants by their values. */
  #constants = new Map<string, Value>();
  /** Names of the model's outputs, by value. */
  #renamed = new Map<Value, string>();
  #names = 0;

  input(name: string, type: ElementType, dimensions: Dimensions): Value {
    this.#inputs.push(valueInfo(name, type, dimensions));
    return name;
  }

  /** Makes a computed float32 value an output of the model under that name. */
  output(name: string, value: Value, dimensions: Dimensions): void {
    if (this.#renamed.has(value)) throw new Error(`${value} is an output already`);
    this.#renamed.set(value, name);
    this.#outputs.push(valueInfo(name, 'float32', dimensions));
  }

  /** A tensor stored in the model. */
  weight(dimensions: readonly number[], data: Float32Array | BigInt64Array): Value {
    const name = this.#name();
    const tensor = new ProtobufWriter();
    for (const dimension of dimensions) tensor.integer(1, dimension);
    tensor
      .integer(2, data instanceof Float32Array ? elementType.float32 : elementType.int64)
      .text(8, name)
      .bytes(9, new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
    this.#initializers.push(tensor);
    return name;
  }

  /** A tensor whose numbers are given to the session apart from the model, under the same name: see `ExternalWeights`. */
  externalWeight(name: string, dimensions: readonly number[], bytes: number): Value {
    const tensor = new ProtobufWriter();
    for (const dimension of dimensions) tensor.integer(1, dimension);
    tensor.integer(2, elementType.float32).text(8, name).integer(14, externalLocation);
    for (const [key, value] of Object.entries({ location: name, offset: '0', length: `${bytes}` }))
      tensor.message(13, new ProtobufWriter().text(1, key).text(2, value));
    this.#initializers.push(tensor);
    return name;
  }

  /** A constant list of integers. */
  integers(...values: number[]): Value {
    return this.#constant(values.join(), [values.length], () => BigInt64Array.from(values, BigInt));
  }

  /** A constant float32 without dimensions. */
  scalar(value: number): Value {
    return this.#constant(`scalar ${value}`, [], () => Float32Array.of(value));
  }

  /** Adds a node of the standard operator set and returns its only output. */
  op(operator: string, inputs: readonly Value[], attributes: Attributes = {}): Value {
    const [output] = this.ops(operator, inputs, attributes, 1);
    return output as Value;
  }

  /** Adds a node with several outputs and returns them. */
  ops(
    operator: string,
    inputs: readonly Value[],
    attributes: Attributes,
    count: number,
    domain = '',
  ): Value[] {
    const outputs = Array.from({ length: count }, () => this.#name());
    this.#nodes.push({ operator, inputs, outputs, attributes, domain });
    return outputs;
  }

  /** Adds one of ONNX Runtime's non-standard operators, which may differ between its versions. */
  contribOp(operator: string, inputs: readonly Value[], attributes: Attributes): Value {
    const [output] = this.ops(operator, inputs, attributes, 1, contribDomain);
    return output as Value;
  }

  /** The bytes of the model file. */
  finish(): Uint8Array {
    const graph = new ProtobufWriter();
    for (const node of this.#nodes) graph.message(1, this.#write(node));
    graph.text(2, 'graph');
    for (const initializer of this.#initializers) graph.message(5, initializer);
    for (const input of this.#inputs) graph.message(11, input);
    for (const output of this.#outputs) graph.message(12, output);
    return new ProtobufWriter()
      .integer(1, irVersion)
      .message(7, graph)
      .message(8, new ProtobufWriter().text(1, '').integer(2, opset))
      .message(8, new ProtobufWriter().text(1, contribDomain).integer(2, 1))
      .finish();
  }

  #constant(key: string, dimensions: number[], data: () => Float32Array | BigInt64Array): Value {
    return getOrInsert(this.#constants, key, () => this.weight(dimensions, data()));
  }

  #name(): string {
    return `v${this.#names++}`;
  }

  #write({ operator, inputs, outputs, attributes, domain }: Node): ProtobufWriter {
    const node = new ProtobufWriter();
    for (const input of inputs) node.text(1, this.#renamed.get(input) ?? input);
    for (const output of outputs) node.text(2, this.#renamed.get(output) ?? output);
    node.text(3, `${operator}_${this.#name()}`).text(4, operator);
    for (const [name, value] of Object.entries(attributes)) node.message(5, attribute(name, value));
    if (domain !== '') node.text(7, domain);
    return node;
  }
}

interface Node {
  operator: string;
  inputs: readonly Value[];
  outputs: readonly Value[];
  attributes: Attributes;
  domain: string;
}

function attribute(name: string, value: Attribute): ProtobufWriter {
  const writer = new ProtobufWriter().text(1, name);
  if (typeof value === 'number') return writer.integer(3, value).integer(20, 2);
  if (typeof value === 'string') return writer.text(4, value).integer(20, 3);
  if ('float' in value) return writer.float(2, value.float).integer(20, 1);
  for (const element of value) writer.integer(8, element);
  return writer.integer(20, 7);
}

function valueInfo(name: string, type: ElementType, dimensions: Dimensions): ProtobufWriter {
  const shape = new ProtobufWriter();
  for (const dimension of dimensions) {
    const writer = new ProtobufWriter();
    if (typeof dimension === 'string') shape.message(1, writer.text(2, dimension));
    else shape.message(1, writer.integer(1, dimension));
  }
  const tensor = new ProtobufWriter().integer(1, elementType[type]).message(2, shape);
  return new ProtobufWriter().text(1, name).message(2, new ProtobufWriter().message(1, tensor));
}
