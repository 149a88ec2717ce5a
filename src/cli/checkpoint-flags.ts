import { homedir } from 'node:os';
import { basename, join, resolve } from 'node:path';
import { type Command, InvalidArgumentError } from 'commander';
import type { CheckpointOptions, FetchProgress } from '../engines/embedded/index.ts';
import type { Engine } from '../engines/engine.ts';
import { repeated, wholeNumber } from './flags.ts';

/** The values of the flags that `addCheckpointFlags` adds. */
export interface CheckpointFlags {
  checkpoint: string[];
  loraRank?: number;
  loraAlpha?: number;
  loraTargets?: Targets;
  context?: number;
}

type Targets = NonNullable<NonNullable<CheckpointOptions['lora']>['targets']>;

const hubPrefix = 'hf:';

export function addCheckpointFlags(command: Command): Command {
  return command
    .option(
      '--checkpoint <folder>',
      'checkpoint in Hugging Face form to serve and train: a folder, or hf:owner/name[@revision]; repeatable',
      repeated,
      [],
    )
    .option('--lora-rank <number>', 'rank of the adapters that training makes (default 16)', wholeNumber(1))
    .option('--lora-alpha <number>', 'alpha of the adapters (default twice the rank)', positiveNumber)
    .option('--lora-targets <names>', 'matrices with an adapter, such as q_proj,v_proj (default all)', names)
    .option(
      '--context <tokens>',
      'longest sequence of the checkpoints, in tokens (default 8192, or less)',
      wholeNumber(1),
    );
}

/** The checkpoints of the flags, as options of the engine. Those of the hub are fetched first, into the user's cache. */
export async function checkpointsOf({
  checkpoint,
  loraRank,
  loraAlpha,
  loraTargets,
  context,
}: CheckpointFlags): Promise<CheckpointOptions[]> {
  const lora = { rank: loraRank, alpha: loraAlpha, targets: loraTargets };
  const settings = { lora, contextLength: context };
  const found: CheckpointOptions[] = [];
  for (const address of checkpoint)
    if (address.startsWith(hubPrefix))
      found.push({ ...(await fetched(address.slice(hubPrefix.length))), ...settings });
    else found.push({ folder: address, id: basename(resolve(address)), ...settings });
  return found;
}

async function fetched(address: string): Promise<Pick<CheckpointOptions, 'folder' | 'id'>> {
  const { fetchCheckpoint } = await import('../engines/embedded/index.ts');
  const { HF_TOKEN, HF_ENDPOINT, XDG_CACHE_HOME } = process.env;
  const show = progressOf(address);
  const { folder, commit, isOffline } = await fetchCheckpoint(address, {
    cache: join(XDG_CACHE_HOME || join(homedir(), '.cache'), 'martingale', 'checkpoints'),
    ...(HF_ENDPOINT ? { hubUrl: HF_ENDPOINT } : {}),
    ...(HF_TOKEN ? { accessToken: HF_TOKEN } : {}),
    onProgress: show.progress,
  });
  show.end();
  if (isOffline)
    process.stderr.write(
      `${hubPrefix}${address}: the hub is not reachable; using commit ${commit}, fetched before\n`,
    );
  return { folder, id: address.replace(/@.*$/, '').replace(/^.*\//, '') };
}

/** Shows progress on a line of a terminal, and nothing elsewhere. */
function progressOf(address: string) {
  const { stderr } = process;
  let shownAt = Number.NEGATIVE_INFINITY;
  return {
    progress: ({ file, bytes, totalBytes }: FetchProgress) => {
      if (!stderr.isTTY || (performance.now() - shownAt < 100 && bytes < totalBytes)) return;
      shownAt = performance.now();
      const share = totalBytes === 0 ? 1 : bytes / totalBytes;
      const bar = '█'.repeat(Math.round(share * 20)).padEnd(20, '░');
      const megabytes = (amount: number) => (amount / 1e6).toFixed(0);
      stderr.write(
        `\r\u001b[K${hubPrefix}${address} ${bar} ${Math.floor(share * 100)}% of ${megabytes(totalBytes)} MB  ${file}`,
      );
    },
    end: () => {
      if (stderr.isTTY && shownAt >= 0) stderr.write('\n');
    },
  };
}

/** A line for each checkpoint: what was found in its folder. */
export function describeCheckpoints(engine: Engine, checkpoints: readonly CheckpointOptions[]): string[] {
  const ids = new Set(checkpoints.map(({ id }) => id));
  return engine.baseModels
    .filter(({ id }) => ids.has(id))
    .map(({ id, parameters, contextLength }) => {
      const { textCalls, textReasoning } = engine.chatFormat(id);
      const calls = textCalls ? `tool calls ${textCalls.open || 'as bare JSON'}` : 'no tool calls';
      const reasoning = textReasoning ? `reasoning in ${textReasoning.open}` : 'no reasoning';
      const size = `${(parameters / 1e6).toFixed(1)} million parameters`;
      return `base model ${id}: ${size}, ${contextLength} tokens of context, ${calls}, ${reasoning}`;
    });
}

function positiveNumber(text: string): number {
  const value = Number(text);
  if (text.trim() !== '' && Number.isFinite(value) && value > 0) return value;
  throw new InvalidArgumentError('It must be a number above 0.');
}

/** The engine refuses unknown names. */
const names = (text: string) => text.split(',').map((name) => name.trim()) as unknown as Targets;
