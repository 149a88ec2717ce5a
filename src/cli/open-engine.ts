import { type Command, Option } from 'commander';
import { combineEngines } from '../engines/combined-engine.ts';
import type { Engine } from '../engines/engine.ts';
import { OptionError } from '../util/option-error.ts';
import { addCheckpointFlags, type CheckpointFlags, checkpointsOf, showFetch } from './checkpoint-flags.ts';
import { serviceUrl, threadsFlag, wholeNumber } from './flags.ts';

/** The values of the flags that `addEngineFlags` adds. */
export interface EngineFlags extends CheckpointFlags {
  engine: 'embedded' | 'tinker';
  threads?: number;
  tinkerUrl?: string;
  tinkerAdapters?: number;
  tinkerPlainHttp?: boolean;
}

export function addEngineFlags(command: Command): Command {
  return addCheckpointFlags(command)
    .addOption(threadsFlag())
    .addOption(
      new Option('--engine <name>', 'what runs the checkpoint: this machine, or a server of the Tinker API')
        .choices(['embedded', 'tinker'])
        .default('embedded'),
    )
    .option('--tinker-url <url>', 'address of that server, such as http://127.0.0.1:8001', serviceUrl)
    .option('--tinker-adapters <number>', 'adapters on that server at once (default 4)', wholeNumber(2))
    .option('--tinker-plain-http', 'the network to that server is trusted: allow http beyond this machine');
}

/**
 * Opens the engine that the flags choose. The tiny models always run on this machine, beside any other engine. `onWait`
 * gets what the engine waits for, if it is on a training server. Rejects with the signal's reason when aborted.
 *
 * @throws OptionError for flags that do not belong together, and the errors of the engines.
 */
export async function openEngine(
  flags: EngineFlags,
  { onWait, signal }: { onWait?: (reason: string) => void; signal?: AbortSignal | undefined } = {},
): Promise<Engine> {
  const { createEmbeddedEngine } = await import('../engines/embedded/index.ts');
  const { threads, trainingMemory, device, engine } = flags;
  if (engine === 'embedded') {
    for (const [name, value] of Object.entries(tinkerFlags(flags)))
      if (value !== undefined) throw wrong(name, 'is for --engine tinker; leave it out');
    const checkpoints = checkpointsOf(flags);
    return createEmbeddedEngine({
      threads,
      checkpoints,
      trainingBytes: trainingMemory,
      device,
      onFetch: showFetch,
      signal,
    });
  }
  const options = tinkerOptions(flags);
  const { createTinkerEngine } = await import('../engines/tinker/index.ts');
  const engines: Engine[] = [];
  try {
    engines.push(await createEmbeddedEngine({ threads, signal }));
    engines.push(await createTinkerEngine({ ...options, ...(onWait ? { onWait } : {}), signal }));
    return combineEngines(engines);
  } catch (error) {
    await Promise.all(engines.map((opened) => opened.close()));
    throw error;
  }
}

const tinkerFlags = ({ tinkerUrl, tinkerAdapters, tinkerPlainHttp }: EngineFlags) => ({
  'tinker-url': tinkerUrl,
  'tinker-adapters': tinkerAdapters,
  'tinker-plain-http': tinkerPlainHttp,
});

function tinkerOptions(flags: EngineFlags) {
  const { checkpoint, tinkerUrl, tinkerAdapters: adapters, tinkerPlainHttp, loraRank: rank } = flags;
  const [folder, ...others] = checkpoint;
  if (tinkerUrl === undefined)
    throw wrong('tinker-url', 'is missing: pass the address of the training server');
  if (folder === undefined || others.length > 0 || /^(hf|ollama):/.test(folder))
    throw wrong('checkpoint', "must be given once, with a folder of the server's base model");
  const unused = {
    adapter: flags.adapter,
    train: flags.train,
    'lora-alpha': flags.loraAlpha,
    'lora-targets': flags.loraTargets,
    context: flags.context,
  };
  const { trainingMemory, device } = flags;
  for (const [name, value] of Object.entries({ ...unused, 'training-memory': trainingMemory, device }))
    if (value !== undefined) throw wrong(name, 'is set on the training server; leave it out');
  const { protocol, hostname } = new URL(tinkerUrl);
  const isHere = hostname === 'localhost' || hostname === '[::1]' || hostname.startsWith('127.');
  if (protocol === 'http:' && !isHere && !tinkerPlainHttp)
    throw wrong(
      'tinker-url',
      `must be https, because ${hostname} is another machine; or pass --tinker-plain-http if the network between is trusted`,
    );
  return { url: tinkerUrl, checkpoint: folder, rank, adapters };
}

const wrong = (option: string, problem: string) =>
  new OptionError('invalid_run_option', `--${option} ${problem}.`, { option });
