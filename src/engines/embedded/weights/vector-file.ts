import { EngineError } from '../../engine.ts';
import { type TensorShape, vectorLength } from './architecture.ts';
import { encodeHeader, SafetensorsFile, type StoredTensor } from './safetensors.ts';

/** Encodes the header of a file of float32 tensors. The data must follow at the offsets of the shapes. */
export const encodeVectorHeader = (
  shapes: readonly TensorShape[],
  metadata: Readonly<Record<string, string>>,
): Uint8Array =>
  encodeHeader(
    shapes.map(({ name, dimensions }) => ({ name, dimensions, format: 'F32' })),
    metadata,
  );

/**
 * Writes flat float32 vectors, one after the other, as the tensors of a safetensors file. Returns the file in parts,
 * which are views of the vectors. `metadata`: texts by name.
 */
export const encodeVectors = (
  shapes: readonly TensorShape[],
  vectors: readonly Float32Array[],
  metadata: Readonly<Record<string, string>>,
): Uint8Array[] => [
  encodeVectorHeader(shapes, metadata),
  ...vectors.map(({ buffer, byteOffset, byteLength }) => new Uint8Array(buffer, byteOffset, byteLength)),
];

/**
 * A safetensors file whose tensors, all float32, make up one flat vector. Must be disposed of, such as by
 * `await using`.
 */
export class VectorFile {
  readonly #file: SafetensorsFile;
  readonly #shapes: readonly TensorShape[];
  readonly #tensors: readonly StoredTensor[];

  private constructor(file: SafetensorsFile, shapes: readonly TensorShape[]) {
    this.#file = file;
    this.#shapes = shapes;
    this.#tensors = shapes.map(({ name, dimensions }) => {
      const tensor = file.tensors.get(name);
      if (tensor?.format === 'F32' && tensor.dimensions.join() === dimensions.join()) return tensor;
      const problem = `${file.path} has no float32 tensor ${name} of shape [${dimensions}]. Another version of the engine, or another model, wrote it.`;
      throw new EngineError('bad_checkpoint', problem);
    });
  }

  /**
   * Throws an `EngineError` when a tensor is missing, cut off or has another shape, or when the file's metadata has
   * another value of an `expected` name. Names that it lacks are not compared.
   */
  static async open(
    path: string,
    shapes: readonly TensorShape[],
    expected: Readonly<Record<string, string>> = {},
  ): Promise<VectorFile> {
    const file = await SafetensorsFile.open(path);
    try {
      for (const [name, value] of Object.entries(expected)) {
        const saved = file.metadata[name];
        if (saved !== undefined && saved !== value)
          throw new EngineError(
            'base_model_changed',
            `The model was trained with ${name} ${saved}, but its base model has ${value} now. Start the service with the checkpoint and the settings that it was trained with.`,
          );
      }
      return new VectorFile(file, shapes);
    } catch (error) {
      await file[Symbol.asyncDispose]();
      throw error;
    }
  }

  get metadata(): Readonly<Record<string, string>> {
    return this.#file.metadata;
  }

  /** Reads all tensors into one vector, at the offsets of their shapes. */
  async read(): Promise<Float32Array> {
    const data = new Float32Array(vectorLength(this.#shapes));
    for (const [index, { start, bytes }] of this.#tensors.entries()) {
      const offset = this.#shapes[index]?.offset ?? 0;
      await this.#file.fill(new Uint8Array(data.buffer, offset * 4, bytes), start);
    }
    return data;
  }

  /** Reads the bytes of the tensors, in the order of the shapes, in pieces. */
  async *pieces(): AsyncGenerator<Uint8Array> {
    // Readers may keep pieces while they read further ones.
    for (const tensor of this.#tensors)
      for await (const piece of this.#file.pieces(tensor)) yield piece.slice();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#file[Symbol.asyncDispose]();
  }
}
