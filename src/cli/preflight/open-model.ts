import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Command, Option } from 'commander';
import { type Client, createClient } from '../../client/index.ts';
import { MartingaleError } from '../../contract/index.ts';
import { ModelHandle } from '../../model/index.ts';
import { findModel } from '../find-model.ts';
import { serviceUrl } from '../flags.ts';
import { openClient } from '../open-client.ts';
import { addEngineFlags, type EngineFlags, openEngine } from '../open-engine.ts';
import { listenForInterrupt } from '../program-end.ts';

export interface ModelFlags extends EngineFlags {
  model?: string;
  baseUrl?: string;
  apiKey?: string;
}

export const addModelFlags = (command: Command): Command =>
  addEngineFlags(command)
    .option(
      '--model <name>',
      'project/model or entity/project/model, either with :stepN, or a base model (default: the checkpoint, or martingale-tiny)',
    )
    .addOption(
      new Option('--base-url <url>', 'a service (default: one in this process)')
        .env('MARTINGALE_BASE_URL')
        .argParser(serviceUrl),
    )
    .addOption(new Option('--api-key <key>', 'key of the service').env('MARTINGALE_API_KEY'));

interface OpenedModel {
  model: ModelHandle;
  close: () => Promise<void>;
}

/**
 * Opens the model of the flags: of a service, or of one in this process, whose data is deleted at the end.
 * @throws MartingaleError for a model that is not there; the errors of `openClient` and `openEngine`.
 */
async function openModelOf(flags: ModelFlags, signal: AbortSignal): Promise<OpenedModel> {
  const { model: name, baseUrl, apiKey } = flags;
  if (baseUrl !== undefined) {
    if (name === undefined)
      throw new MartingaleError(
        'bad_option',
        `The service at ${baseUrl} (--base-url or MARTINGALE_BASE_URL) needs --model: \`martingale models\` lists its models.`,
      );
    const client = await openClient({ baseUrl, apiKey }, signal);
    return openedOf(client, { name, signal, close: () => client.close() });
  }
  const { startService } = await import('../../service/index.ts');
  const engine = await openEngine(flags, { signal });
  const last = engine.baseModels.at(-1)?.id;
  const chosen = name ?? (flags.checkpoint.length > 0 ? last : undefined) ?? 'martingale-tiny';
  const dataFolder = await mkdtemp(join(tmpdir(), 'martingale-'));
  const closeEngine = async () => {
    await engine.close();
    await rm(dataFolder, { recursive: true, force: true });
  };
  const service = await startService({ engine, dataFolder, log: () => undefined }).catch(
    async (error: unknown) => {
      await closeEngine();
      throw error;
    },
  );
  const client = createClient({ baseUrl: service.url, apiKey: service.apiKey });
  const close = async () => {
    await client.close();
    await service.close();
    await closeEngine();
  };
  return openedOf(client, { name: chosen, signal, close }).catch((error: unknown) => {
    if (!MartingaleError.isInstance(error) || error.code !== 'model_not_found') throw error;
    throw new MartingaleError(
      error.code,
      `${error.message} This is a service of this command, with base models alone: name a running one with --base-url or ` +
        'MARTINGALE_BASE_URL.',
      { cause: error },
    );
  });
}

async function openedOf(
  client: Client,
  { name, signal, close }: { name: string; signal: AbortSignal; close: () => Promise<void> },
): Promise<OpenedModel> {
  try {
    const found = await findModel(client, name, signal);
    return { model: new ModelHandle({ client, name: found.name }), close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Runs work with the model of the flags until it ends or is interrupted. */
export async function withModel(
  flags: ModelFlags,
  work: (model: OpenedModel['model'], signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const interrupt = listenForInterrupt({ limitMs: 10_000, onFirst: () => {}, onEarlyExit: () => {} });
  let opened: OpenedModel | undefined;
  try {
    opened = await openModelOf(flags, interrupt.signal);
    await work(opened.model, interrupt.signal);
  } catch (error) {
    if (interrupt.status === undefined) throw error;
  } finally {
    if (interrupt.status !== undefined) process.exitCode = interrupt.status;
    await opened?.close();
    interrupt.release();
  }
}
