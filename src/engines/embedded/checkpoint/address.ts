import { homedir } from 'node:os';
import { basename, join, resolve } from 'node:path';
import { warn } from '../../../util/warning.ts';
import { type FetchProgress, fetchCheckpoint } from './fetch-checkpoint.ts';
import { ollamaFile, ollamaFolders } from './ollama.ts';

const [hubPrefix, ollamaPrefix] = ['hf:', 'ollama:'];

/** The last part of an address, without a revision or an ending. A colon in a name begins its step. */
export function idOf(address: string): string {
  if (address.startsWith(hubPrefix)) return basename(address.replace(/@.*$/, ''));
  if (address.startsWith(ollamaPrefix)) return basename(address.slice(ollamaPrefix.length)).replace(':', '-');
  return basename(resolve(address)).replace(/\.gguf$/i, '');
}

export interface FetchWait {
  /** Called while a checkpoint is fetched from the hub. Default: nothing. */
  onFetch?: ((progress: FetchProgress) => void) | undefined;
  signal?: AbortSignal | undefined;
}

/** The folder or file of an address. */
export async function locate(address: string, wait: FetchWait): Promise<string> {
  if (address.startsWith(hubPrefix)) return await fetched(address, wait);
  if (address.startsWith(ollamaPrefix))
    return await ollamaFile(address.slice(ollamaPrefix.length), ollamaFolders(process.env));
  return resolve(address);
}

/** The folder of a checkpoint of the hub, in the user's cache. */
async function fetched(address: string, { onFetch, signal }: FetchWait): Promise<string> {
  const { HF_TOKEN, HF_ENDPOINT, XDG_CACHE_HOME } = process.env;
  const { folder, commit, isOffline } = await fetchCheckpoint(address.slice(hubPrefix.length), {
    cache: join(XDG_CACHE_HOME || join(homedir(), '.cache'), 'martingale', 'checkpoints'),
    ...(HF_ENDPOINT ? { hubUrl: HF_ENDPOINT } : {}),
    ...(HF_TOKEN ? { accessToken: HF_TOKEN } : {}),
    ...(onFetch ? { onProgress: onFetch } : {}),
    signal,
  });
  if (isOffline)
    warn(
      'martingale_hub_unreachable',
      `${address}: the hub is not reachable; using commit ${commit}, which was fetched before`,
    );
  return folder;
}
