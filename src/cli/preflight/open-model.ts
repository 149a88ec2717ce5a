import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Command, Option } from 'commander';
import { createClient } from '../../client/index.ts';
import { MartingaleError } from '../../contract/index.ts';
import { ModelHandle } from '../../model/index.ts';
import { serviceUrl } from '../flags.ts';
import { addEngineFlags, type EngineFlags, openEngine } from '../open-engine.ts';

export interface ModelFlags extends EngineFlags {
  model?: string;
  baseUrl?: string;
  apiKey?: string;
}

export const addModelFlags = (command: Command): Command =>
  addEngineFlags(command)
    .option('--model <name>', 'the model to call (default: the checkpoint, or martingale-tiny)')
    .addOption(
      new Option('--base-url <url>', 'a service (default: one in this process)')
        .env('MARTINGALE_BASE_URL')
        .argParser(serviceUrl),
    )
    .addOption(new Option('--api-key <key>', 'key of the service').env('MARTINGALE_API_KEY'));

export interface OpenedModel {
  model: ModelHandle;
  close: () => Promise<void>;
}

/** Opens the model of the flags: of a service, or of one in this process, whose data is deleted at the end. */
export async function openModelOf(flags: ModelFlags): Promise<OpenedModel> {
  const { model: name, baseUrl, apiKey } = flags;
  if (baseUrl !== undefined) {
    if (!apiKey || name === undefined)
      throw new MartingaleError(
        'bad_option',
        '--base-url needs --model, and a key of the service: set MARTINGALE_API_KEY or pass --api-key.',
      );
    const client = createClient({ baseUrl, apiKey });
    return { model: new ModelHandle({ client, name }), close: () => client.close() };
  }
  const { startService } = await import('../../service/index.ts');
  const dataFolder = await mkdtemp(join(tmpdir(), 'martingale-'));
  const engine = await openEngine(flags);
  const service = await startService({ engine, dataFolder, log: () => undefined });
  const client = createClient({ baseUrl: service.url, apiKey: service.apiKey });
  const last = engine.baseModels.at(-1)?.id;
  const chosen = name ?? (flags.checkpoint.length > 0 ? last : undefined) ?? 'martingale-tiny';
  return {
    model: new ModelHandle({ client, name: chosen }),
    close: async () => {
      await client.close();
      await service.close();
      await engine.close();
      await rm(dataFolder, { recursive: true, force: true });
    },
  };
}
