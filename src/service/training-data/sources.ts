import { realpath, stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { messageOf, ServiceError } from '../errors.ts';

/** Where `training_data_url` may point beside uploads. By default nowhere. */
export interface TrainingDataOptions {
  /** Folders in which `file:` URLs may name files and folders. Symbolic links must not lead out of them. */
  folders?: readonly string[];
  /**
   * Hosts that `https:` URLs may name, redirects included: `data.example.org`, `data.example.org:8443`. With a scheme
   * before it, `http://10.0.0.7:9000`, a host may be asked without encryption.
   */
  hosts?: readonly string[];
  /** How long a download may take. Default 300000. */
  timeoutMs?: number;
}

/** The same, checked: real paths of folders, origins of hosts. */
export interface TrainingDataSources {
  folders: readonly string[];
  origins: readonly string[];
  timeoutMs: number;
}

/** @throws ServiceError `bad_option` for a folder that is not there and for what is no host. */
export async function resolveSources(options: TrainingDataOptions = {}): Promise<TrainingDataSources> {
  return {
    folders: await Promise.all((options.folders ?? []).map(toFolder)),
    origins: (options.hosts ?? []).map(toOrigin),
    timeoutMs: options.timeoutMs ?? 300_000,
  };
}

async function toFolder(folder: string): Promise<string> {
  try {
    const real = await realpath(resolve(folder));
    if ((await stat(real)).isDirectory()) return real;
  } catch (cause) {
    throw badOption(`the folder ${folder} of training data cannot be read: ${messageOf(cause)}`, cause);
  }
  throw badOption(`${folder} is no folder; name the folder that holds the training data`);
}

function toOrigin(host: string): string {
  const text = /^https?:\/\//i.test(host) ? host : `https://${host}`;
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url && url.href === `${url.origin}/`) return url.origin;
  throw badOption(
    `${JSON.stringify(host)} is no host to fetch training data from; give a name such as data.example.org, with its port where it is not 443`,
  );
}

const badOption = (message: string, cause?: unknown) =>
  new ServiceError(500, 'bad_option', message, { cause });
