import { randomUUID } from 'node:crypto';
import { basename } from 'node:path';
import { Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { untilAborted } from '../../util/deadline.ts';
import { messageOf } from '../../util/error.ts';
import { isObject } from '../../util/json.ts';
import { sumOf } from '../../util/sums.ts';
import { decodeTar, encodeTar, tarBytes } from '../../util/tar.ts';
import { EngineError, type ExportedWeights } from '../engine.ts';
import type { Adapter, Adapters } from './adapters.ts';
import type { TinkerApi } from './tinker-api.ts';

/** PEFT's names of the files of an adapter. */
const configFile = 'adapter_config.json';
const weightsFile = 'adapter_model.safetensors';

/** Largest file of an adapter, which is in memory for its download. */
const maxBytes = 2 ** 30;

/**
 * An adapter of the server as PEFT's two files, in one archive. The server writes them for this, from the checkpoint at
 * `path`, and removes them when they have been fetched, or the signal aborts.
 *
 * @throws EngineError (`engine_unsupported`) when the server's archive is no LoRA adapter.
 */
export async function exportAdapter(
  {
    api,
    adapters,
    baseModel,
    signal,
  }: { api: TinkerApi; adapters: Adapters; baseModel: string; signal: AbortSignal },
  path: string | null,
): Promise<ExportedWeights> {
  const download = async (adapter: Adapter) => {
    const name = `martingale-${randomUUID()}`;
    const body = { model_id: adapter.id, path: name, seq_id: adapter.sequence++ };
    const checkpoints = `training_runs/${adapter.id}/checkpoints`;
    // Removed with the adapter, if not before.
    adapter.files.push(name);
    const remove = async () => {
      await api.remove(`${checkpoints}/sampler_weights/${name}`);
      adapter.files = adapter.files.filter((file) => file !== name);
    };
    const saved = api.operation('save_weights_for_sampler', body, { repeat: 'never' });
    try {
      await untilAborted(saved, signal);
      return await api.download(`${checkpoints}/${name}/archive`, signal);
    } finally {
      const removed = saved.then(remove).catch(() => undefined);
      if (!signal.aborted) await removed;
    }
  };
  const archive = await adapters.withWeights(path, download, signal);
  const files = await untilAborted(filesOf(archive), signal).catch((cause: unknown) => {
    signal.throwIfAborted();
    const problem = messageOf(cause);
    throw new EngineError(
      'engine_unsupported',
      `The training server ${api.url} gave no LoRA adapter in PEFT's form: ${problem}. Its files are in the folder of its checkpoints.`,
      { cause },
    );
  });
  // The local path of the base model stays private.
  const config = { ...files.config, base_model_name_or_path: baseModel };
  const both = [
    { path: `adapter/${configFile}`, content: [Buffer.from(`${JSON.stringify(config, null, 2)}\n`)] },
    { path: `adapter/${weightsFile}`, content: files.weights },
  ].map((file) => ({ ...file, bytes: sumOf(file.content, (piece) => piece.length) }));
  return { extension: '.tar', bytes: tarBytes(both), chunks: encodeTar(both) };
}

/** The files of an archive, packed or not. */
async function filesOf(archive: Uint8Array): Promise<{ config: object; weights: Uint8Array[] }> {
  const isPacked = archive[0] === 0x1f && archive[1] === 0x8b;
  const packed = Readable.from([Buffer.from(archive.buffer, archive.byteOffset, archive.byteLength)]);
  const found = new Map<string, Uint8Array[]>();
  for await (const { path, bytes, content } of decodeTar(isPacked ? packed.pipe(createGunzip()) : packed)) {
    if (bytes > maxBytes) throw new Error(`${path} has ${bytes} bytes, more than ${maxBytes}`);
    const pieces: Uint8Array[] = [];
    for await (const piece of content) pieces.push(Uint8Array.from(piece));
    found.set(basename(path), pieces);
  }
  const [config, weights] = [found.get(configFile), found.get(weightsFile)];
  if (!config || !weights)
    throw new Error(
      `it has ${[...found.keys()].join(', ') || 'nothing'}, not ${configFile} and ${weightsFile}`,
    );
  const value: unknown = JSON.parse(Buffer.concat(config).toString('utf8'));
  if (!isObject(value)) throw new Error(`${configFile} holds no object`);
  return { config: value, weights };
}
