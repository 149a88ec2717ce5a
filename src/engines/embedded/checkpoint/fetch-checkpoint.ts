import { createHash } from 'node:crypto';
import { createReadStream, existsSync } from 'node:fs';
import { open, readdir, readFile, rename, rm, stat, truncate } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ListFileEntry } from '@huggingface/hub';
import { Deadline } from '../../../util/deadline.ts';
import { makeFolder, privateFile, syncFolder, writeAtomically } from '../../../util/durable-files.ts';
import { largestOf } from '../../../util/extremes.ts';
import { lockFile } from '../../../util/file-lock.ts';
import { sumOf } from '../../../util/sums.ts';
import { warn } from '../../../util/warning.ts';
import { EngineError } from '../../engine.ts';
import { connection, defaultIdleTimeoutMs, type HubOptions, hubError, isRefusal, listing } from './hub.ts';

export interface FetchProgress {
  /** The file that is being fetched. */
  file: string;
  /** Bytes of all files that are here, and of all that are needed. */
  bytes: number;
  totalBytes: number;
}

interface FetchOptions extends HubOptions {
  /** Folder that keeps what was fetched. */
  cache: string;
  onProgress?: (progress: FetchProgress) => void;
}

interface FetchedCheckpoint {
  folder: string;
  /** The commit of the repository. */
  commit: string;
  /** True when the hub was not reachable and an earlier fetch of the same revision is used. */
  isOffline: boolean;
}

/** Connections in a row that may bring no byte before the fetch fails. */
const maxFailures = 3;

/** Whether a checkpoint needs the file: configuration, tokenizer, template and weights in safetensors. */
const isNeeded = (path: string) =>
  /^(model(-\d+-of-\d+)?\.safetensors|[\w.-]+\.(json|jinja|txt)|tokenizer\.model|LICENSE[\w.-]*)$/.test(path);

/**
 * Fetches a checkpoint from the Hugging Face hub into a cache, and returns its folder there. What an earlier, cut fetch
 * left is continued, every file is checked by its hash, and the folder appears only when it is complete. Rejects with the
 * signal's reason when aborted; the next call continues.
 *
 * @param address `owner/name`, or `owner/name@revision` with a branch, tag or commit.
 * @throws EngineError (`hub_unreachable`, `hub_refused`, `checkpoint_corrupt`, `storage_failed`, `bad_option`)
 */
export async function fetchCheckpoint(address: string, options: FetchOptions): Promise<FetchedCheckpoint> {
  const [, name, revision = 'main'] = /^([\w.-]+\/[\w.-]+)(?:@([\w./-]+))?$/.exec(address) ?? [];
  if (!name || address.includes('..'))
    throw new EngineError(
      'bad_option',
      `\`checkpoints\` has hf:${address}. Pass hf:owner/name or hf:owner/name@revision.`,
    );
  if (options.accessToken !== undefined && !options.accessToken.startsWith('hf_'))
    throw new EngineError(
      'bad_option',
      'The access token of the Hugging Face hub must begin with hf_. Check HF_TOKEN.',
    );
  const repository = join(options.cache, name.replace('/', '--'));
  const reference = join(repository, `${encodeURIComponent(revision)}.commit`);
  const known = await readFile(reference, 'utf8').catch(() => '');
  let commit: string;
  try {
    commit = await commitOf(name, revision, options);
  } catch (cause) {
    options.signal?.throwIfAborted();
    const error = hubError(address, cause, options);
    const folder = join(repository, known);
    if (error.code === 'hub_unreachable' && known !== '' && existsSync(folder))
      return { folder, commit: known, isOffline: true };
    throw error;
  }
  const folder = join(repository, commit);
  if (known !== commit || !existsSync(folder))
    try {
      await makeFolder(repository);
      const lockedFile = `${folder}.lock`;
      const lock = await alone(lockedFile, address, options);
      try {
        await fetchInto(folder, { repo: name, commit, options });
        await writeAtomically(reference, [commit]);
        await rm(lockedFile, { force: true });
      } finally {
        lock.release();
      }
    } catch (cause) {
      options.signal?.throwIfAborted();
      throw hubError(address, cause, options);
    }
  return { folder, commit, isOffline: false };
}

/** Milliseconds between two looks whether another process has fetched the checkpoint. */
const lookEveryMs = 200;

/** The other process may write nothing for this many of its own waits, because it also checks files of gigabytes. */
const silentWaits = 10;

/**
 * Waits for the lock while another process fetches.
 * @throws EngineError `hub_unreachable` when that has written nothing for too long: then it hangs.
 */
async function alone(
  file: string,
  address: string,
  { idleTimeoutMs = defaultIdleTimeoutMs, signal }: FetchOptions,
) {
  const maxSilentMs = silentWaits * idleTimeoutMs;
  let [isTold, newest, since] = [false, 0, performance.now()];
  for (;;) {
    const lock = lockFile(file);
    if (lock) return lock;
    if (!isTold)
      warn(
        'martingale_fetch_waits',
        `hf:${address} is being fetched by another process: waiting for its end`,
      );
    isTold = true;
    await sleep(lookEveryMs, undefined, { signal });
    const changed = await lastChange(file.replace(/\.lock$/, '.unfinished'));
    if (changed !== newest) [newest, since] = [changed, performance.now()];
    if (performance.now() - since > maxSilentMs)
      throw new EngineError(
        'hub_unreachable',
        `hf:${address} is being fetched by another process, which has written nothing for ${maxSilentMs} ms. End that process, then try again.`,
      );
  }
}

/** When a file of a folder was last written, in milliseconds since 1970; 0 without files. */
async function lastChange(folder: string): Promise<number> {
  const files = await readdir(folder).catch(() => []);
  const times = files.map((file) =>
    stat(join(folder, file)).then(
      ({ mtimeMs }) => mtimeMs,
      () => 0,
    ),
  );
  return largestOf(await Promise.all(times), 0);
}

async function fetchInto(
  folder: string,
  { repo, commit, options }: { repo: string; commit: string; options: FetchOptions },
): Promise<void> {
  if (existsSync(folder)) return;
  const unfinished = `${folder}.unfinished`;
  await makeFolder(unfinished);
  await fetchFiles(repo, commit, unfinished, options);
  await syncFolder(unfinished);
  await rename(unfinished, folder);
  await syncFolder(dirname(folder));
}

async function commitOf(name: string, revision: string, options: FetchOptions): Promise<string> {
  const { modelInfo } = await import('@huggingface/hub');
  const { sha } = await modelInfo({ name, revision, additionalFields: ['sha'], ...listing(options) });
  if (!/^[0-9a-f]{40}$/.test(sha)) throw new TypeError(`it gives no commit for ${revision}: ${sha}`);
  return sha;
}

async function fetchFiles(
  repo: string,
  commit: string,
  folder: string,
  options: FetchOptions,
): Promise<void> {
  const { listFiles } = await import('@huggingface/hub');
  const files: ListFileEntry[] = [];
  for await (const entry of listFiles({ repo, revision: commit, ...listing(options) }))
    if (entry.type === 'file' && isNeeded(entry.path)) files.push(checked(entry));
  const totalBytes = sumOf(files, ({ size }) => size);
  let bytes = 0;
  for (const entry of files) {
    const report = (fetched: number) =>
      options.onProgress?.({ file: entry.path, bytes: bytes + fetched, totalBytes });
    await fetchFile({ repo, commit, entry, path: join(folder, entry.path), report }, options);
    bytes += entry.size;
  }
}

/** @throws TypeError for an entry that no hub lists */
function checked(entry: ListFileEntry): ListFileEntry {
  const { path, size, oid, lfs } = entry;
  const isHash = (hash: unknown) => typeof hash === 'string' && /^[0-9a-f]{40,64}$/.test(hash);
  if (Number.isSafeInteger(size) && size >= 0 && isHash(lfs ? lfs.oid : oid)) return entry;
  throw new TypeError(`the file ${path} has the size ${size} and no hash that can be checked`);
}

interface FileFetch {
  repo: string;
  commit: string;
  entry: ListFileEntry;
  /** Path of the finished file. */
  path: string;
  /** Gets the bytes that are here. */
  report: (bytes: number) => void;
}

/** Fetches what is missing of a file, again after each cut as long as bytes arrive, and checks its hash. */
async function fetchFile(file: FileFetch, options: FetchOptions): Promise<void> {
  const { entry, path, report } = file;
  if (existsSync(path)) return report(entry.size);
  const partial = `${path}.partial`;
  const sizeNow = async () => (await stat(partial)).size;
  await (await open(partial, 'a', privateFile)).close();
  if ((await sizeNow()) > entry.size) await truncate(partial);
  let failures = 0;
  for (let size = await sizeNow(); size < entry.size; size = await sizeNow())
    try {
      await fetchRest(file, { ...options, partial, size });
    } catch (error) {
      options.signal?.throwIfAborted();
      failures = (await sizeNow()) > size ? 0 : failures + 1;
      if (failures >= maxFailures || isRefusal(error)) throw error;
    }
  if (!(await isIntact(entry, partial, options.signal))) {
    await rm(partial);
    throw new EngineError('checkpoint_corrupt', `${path} has another hash than on the hub. Fetch it again.`);
  }
  await rename(partial, path);
  report(entry.size);
}

async function fetchRest(
  { repo, commit, entry, report }: FileFetch,
  { partial, size, ...options }: FetchOptions & { partial: string; size: number },
): Promise<void> {
  const { downloadFile } = await import('@huggingface/hub');
  const { idleTimeoutMs = defaultIdleTimeoutMs } = options;
  const stall = () => new Error(`no byte came for ${idleTimeoutMs} ms`);
  const silence = new Deadline(idleTimeoutMs, options.signal, stall);
  try {
    const { path, size: total } = entry;
    const blob = await downloadFile({ repo, revision: commit, path, ...connection(options, silence.signal) });
    if (!blob) throw new Error(`the hub has no file ${path} any more`);
    await using target = await open(partial, 'a', privateFile);
    let end = size;
    for await (const chunk of blob.slice(size, total).stream()) {
      silence.restart();
      await target.appendFile(chunk);
      end += chunk.length;
      if (end > total) throw new TypeError(`${path} has more than the ${total} bytes that the hub lists`);
      report(end);
    }
    await target.sync();
  } finally {
    silence.clear();
  }
}

/** The hub names large files by the SHA-256 of their content, and small ones as Git does. */
async function isIntact(
  { oid, lfs, size }: ListFileEntry,
  path: string,
  signal: AbortSignal | undefined,
): Promise<boolean> {
  const hash = lfs ? createHash('sha256') : createHash('sha1').update(`blob ${size}\0`);
  for await (const chunk of createReadStream(path, { signal })) hash.update(chunk);
  return hash.digest('hex') === (lfs?.oid ?? oid);
}
