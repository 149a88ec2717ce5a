import { lookup } from 'node:dns';
import { realpath, stat } from 'node:fs/promises';
import { type BlockList, isIP, type LookupFunction } from 'node:net';
import { resolve } from 'node:path';
import { listOf } from '../../util/public-addresses.ts';
import { badOption, invalidField, messageOf } from '../errors.ts';

/** Where `training_data_url` may point besides uploads. Default: nowhere. */
export interface TrainingDataOptions {
  /** Folders for `file:` URLs. Symbolic links must not lead out of them. */
  folders?: readonly string[];
  /**
   * Hosts for `https:` URLs and their redirects: `data.example.org`, `data.example.org:8443`. With a
   * scheme, such as `http://10.0.0.7:9000`, a host may be fetched without encryption.
   *
   * A name may resolve only to public addresses. Other addresses are allowed if listed themselves, such as
   * `10.0.0.7` above, or for a name: `data.internal=10.0.0.7`, `data.internal=10.0.0.0/8`. For several
   * addresses, list the host several times.
   */
  hosts?: readonly string[];
  /** How long a download may take, in milliseconds. Default 300000. */
  timeoutMs?: number;
}

/** The validated options: real paths of folders, origins of hosts. */
export interface TrainingDataSources {
  folders: readonly string[];
  /** For each origin, the non-public addresses that its name may resolve to. */
  origins: ReadonlyMap<string, BlockList>;
  timeoutMs: number;
  /** The DNS lookup. */
  lookup: LookupFunction;
}

/** @throws ServiceError `bad_option` for a missing folder or an invalid host. */
export async function resolveSources(options: TrainingDataOptions = {}): Promise<TrainingDataSources> {
  return {
    folders: await Promise.all((options.folders ?? []).map(toFolder)),
    origins: toOrigins(options.hosts ?? []),
    timeoutMs: options.timeoutMs ?? 300_000,
    lookup,
  };
}

async function toFolder(folder: string): Promise<string> {
  try {
    const real = await realpath(resolve(folder));
    if ((await stat(real)).isDirectory()) return real;
  } catch (cause) {
    throw badOption(`the folder ${folder} of training data cannot be read: ${messageOf(cause)}`, cause);
  }
  throw badOption(`${folder} is not a folder; pass the folder that holds the training data`);
}

function toOrigins(hosts: readonly string[]): Map<string, BlockList> {
  const addresses = new Map<string, string[]>();
  for (const text of hosts) {
    const [host = '', ...allowed] = text.split('=');
    const url = toUrl(host);
    if (!url || allowed.length > 1)
      throw badOption(
        `${JSON.stringify(text)} is not a host. Pass a name such as data.example.org, with a port unless it is 443, and =10.0.0.7 after it if it resolves to your own network`,
      );
    if (allowed.length > 0 && isIP(url.hostname.replace(/^\[|\]$/g, '')) > 0)
      throw badOption(`${JSON.stringify(text)}: ${host} is an address itself; leave out the part after =`);
    addresses.set(url.origin, [...(addresses.get(url.origin) ?? []), ...allowed]);
  }
  return new Map([...addresses].map(([origin, allowed]) => [origin, toList(origin, allowed)]));
}

function toUrl(host: string): URL | undefined {
  const text = /^https?:\/\//i.test(host) ? host : `https://${host}`;
  const url = URL.canParse(text) ? new URL(text) : undefined;
  return url && url.href === `${url.origin}/` ? url : undefined;
}

function toList(origin: string, addresses: readonly string[]): BlockList {
  try {
    return listOf(addresses);
  } catch (cause) {
    throw badOption(`the host ${origin} of training data: ${messageOf(cause)}`, cause);
  }
}

/** What is known about training data besides its content. */
export interface FoundData {
  /** Number of examples according to its metadata; null if unknown. */
  examples: number | null;
}

export interface DataTaker {
  /** Most bytes that are accepted. */
  limit: number;
  /**
   * Called with the expected number of bytes, if known, before the first arrive. An error thrown here ends
   * the reading.
   */
  expect?: (bytes: number) => void;
  /** Called likewise with the number of examples, if metadata declares it. */
  expectExamples?: (examples: number) => void;
  /** Gets the next bytes. The buffer is reused once the promise resolves. */
  take: (bytes: Uint8Array) => Promise<void>;
}

/** The error for a refused `training_data_url`. */
export const refuse = (url: string, reason: string) => invalidField(['training_data_url'], reason, url);
