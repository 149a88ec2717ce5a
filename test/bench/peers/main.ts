import { availableParallelism, loadavg } from 'node:os';
import { parseArgs } from 'node:util';
import { llamaCpp, publishedGguf } from '../../conformance/published/packages.ts';
import { delayMs } from '../rollouts.ts';
import { head, machine, row, whole } from '../table.ts';
import { benchChatPeers } from './chats.ts';
import { checkpointShapes } from './checkpoint-shapes.ts';
import { benchCheckpointPeers, type CheckpointNeeds } from './checkpoints.ts';
import { benchEnginePeers } from './engine.ts';
import { peerPython } from './environment.ts';
import { benchGrpoPeers } from './grpo.ts';
import { benchLlamaPeers } from './llama.ts';
import { benchRolloutPeers } from './rollouts.ts';

const usage = `Usage: npm run bench:peers -- [options]

Measures martingale beside PyTorch, TRL, transformers serve, PEFT, llama.cpp, ART and verifiers, in turn, on this machine. The first run
installs what its parts need.

  --only PARTS      some of engine, grpo, chats, rollouts, checkpoints, llama, separated by commas. Default: all
  --quick           fewer sizes and rounds: a minute or two for each part
  --threads LIST    engine: numbers of threads. Default 1,2; with --quick 2
  --batches LIST    engine: batch sizes. Default 1,8,32,128; with --quick 8,128
  --sizes LIST      grpo: groups x rollouts of a step. Default 4x8,12x8,48x8; with --quick 12x8
  --replies LIST    chats: tokens of each reply to 32 clients. Default 16,256; with --quick 16
  --flights LIST    rollouts: numbers in flight of one call, and of three turns up to 1,000 of them. Default 1000,4000;
                    with --quick 64
  --shapes LIST     checkpoints: shapes of weights. Default 135M,0.5B; with --quick 135M
  --sequences LIST  checkpoints, llama: replies at once. Default 1,8,32; with --quick 8
  --rounds N        measurements of each figure, whose median counts. Default: engine 7, grpo 4, chats 5, rollouts 3,
                    checkpoints and llama 3; with --quick 3, 2, 2, 1, 1 and 1`;

const { values: flags } = parseArgs({
  options: {
    only: { type: 'string', default: 'engine,grpo,chats,rollouts,checkpoints,llama' },
    quick: { type: 'boolean', default: false },
    threads: { type: 'string' },
    batches: { type: 'string' },
    sizes: { type: 'string' },
    replies: { type: 'string' },
    flights: { type: 'string' },
    shapes: { type: 'string' },
    sequences: { type: 'string' },
    rounds: { type: 'string' },
    help: { type: 'boolean', default: false },
  },
});

const wholeNumber = (text: string) => {
  if (!/^[1-9]\d*$/.test(text)) throw new Error(`${text} is not a whole number of at least 1.\n\n${usage}`);
  return Number(text);
};
const numbers = (text: string) => text.split(',').map(wholeNumber);
const times = (ratio: number) => (Number.isNaN(ratio) ? '-' : `${ratio.toFixed(2)}x`);
const tenths = (rate: number) => (Number.isNaN(rate) ? '-' : rate.toFixed(1));

/** The sizes of the engine's part. All flags are read before anything is installed. */
function engineOptions() {
  return {
    threads: numbers(flags.threads ?? (flags.quick ? '2' : '1,2')),
    batches: numbers(flags.batches ?? (flags.quick ? '8,128' : '1,8,32,128')),
    rounds: wholeNumber(flags.rounds ?? (flags.quick ? '3' : '7')),
  };
}

function grpoOptions() {
  const sizes = (flags.sizes ?? (flags.quick ? '12x8' : '4x8,12x8,48x8')).split(',').map((size) => {
    const [groups = '', rollouts = ''] = size.split('x');
    return { groups: wholeNumber(groups), rollouts: wholeNumber(rollouts) };
  });
  return { sizes, rounds: wholeNumber(flags.rounds ?? (flags.quick ? '2' : '4')) };
}

function chatOptions() {
  const replies = numbers(flags.replies ?? (flags.quick ? '16' : '16,256'));
  return {
    works: replies.map((replyTokens) => ({ clients: 32, replyTokens })),
    rounds: wholeNumber(flags.rounds ?? (flags.quick ? '2' : '5')),
  };
}

function rolloutOptions() {
  const flights = numbers(flags.flights ?? (flags.quick ? '64' : '1000,4000'));
  return {
    works: [
      ...flights.map((inFlight) => ({ turns: 1, inFlight })),
      ...flights.filter((inFlight) => inFlight <= 1000).map((inFlight) => ({ turns: 3, inFlight })),
    ],
    rounds: wholeNumber(flags.rounds ?? (flags.quick ? '1' : '3')),
  };
}

function checkpointOptions() {
  const shapes = (flags.shapes ?? (flags.quick ? '135M' : '135M,0.5B')).split(',').map((name) => {
    const shape = Object.hasOwn(checkpointShapes, name) ? checkpointShapes[name] : undefined;
    if (!shape) throw new Error(`There is no shape ${name}.\n\n${usage}`);
    return shape;
  });
  return {
    shapes,
    batches: numbers(flags.sequences ?? (flags.quick ? '8' : '1,8,32')),
    rounds: wholeNumber(flags.rounds ?? (flags.quick ? '1' : '3')),
  };
}

const llamaOptions = () => ({
  batches: numbers(flags.sequences ?? (flags.quick ? '8' : '1,8,32')),
  rounds: wholeNumber(flags.rounds ?? (flags.quick ? '1' : '3')),
});

async function engineTable(python: string, options: ReturnType<typeof engineOptions>): Promise<void> {
  console.log('\nSampled and trained tokens a second, beside the same architecture in PyTorch:\n');
  head('what', 'threads', 'batch', 'martingale', 'PyTorch eager', 'compiled', 'martingale / faster');
  for await (const { threads, batch, work, ours, eager, compiled, ratio } of benchEnginePeers({
    python,
    ...options,
  }))
    row(
      ...[work, threads, batch, whole(ours), whole(eager)],
      ...[compiled === null ? '-' : whole(compiled), times(ratio)],
    );
}

async function grpoTable(python: string, options: ReturnType<typeof grpoOptions>): Promise<void> {
  console.log(
    `\nA step of GRPO on ${availableParallelism()} threads, milliseconds a step; ours through HTTP, journal and disk, TRL's in one process:\n`,
  );
  head('rollouts', 'what', 'parameters', 'tokens a prompt + reply', 'ms', 'ms of CPU', 'TRL / this');
  for await (const { size, what, step, ratio } of benchGrpoPeers({ python, ...options }))
    row(
      ...[size, what, whole(step.parameters), `${whole(step.promptTokens)} + ${whole(step.replyTokens)}`],
      ...[whole(step.milliseconds), whole(step.cpuMilliseconds), times(ratio)],
    );
}

async function chatTable(python: string, options: ReturnType<typeof chatOptions>): Promise<void> {
  console.log('\nChat completions a second over HTTP, beside a Llama of as many parameters:\n');
  head('clients', 'tokens a reply', 'what', 'a second', 'martingale / this');
  for await (const { clients, replyTokens, what, perSecond, ratio } of benchChatPeers({ python, ...options }))
    row(clients, replyTokens, what, tenths(perSecond), times(ratio));
}

async function rolloutTable(
  python: { art: string; verifiers: string },
  options: ReturnType<typeof rolloutOptions>,
): Promise<void> {
  console.log(`\nRollouts a second against a service that answers each call after ${delayMs} ms:\n`);
  head('turns', 'in flight', 'what', 'a second', 'martingale / this');
  for await (const { turns, inFlight, what, perSecond, ratio } of benchRolloutPeers({ python, ...options }))
    row(turns, whole(inFlight), what, tenths(perSecond), times(ratio));
}

async function checkpointTable(python: string, options: ReturnType<typeof checkpointOptions>): Promise<void> {
  console.log(
    '\nCheckpoints with random weights and an adapter of rank 16 on 2 threads, tokens a second; our replies through the whole service, prompts of 128 tokens and 64 sampled:\n',
  );
  head('shape', 'what', 'martingale', 'PyTorch fp32', 'bf16', 'martingale / fp32', 'martingale / bf16');
  const needed: CheckpointNeeds[] = [];
  for await (const told of benchCheckpointPeers({ python, ...options })) {
    if ('needs' in told) needed.push(told.needs);
    else {
      const { name, what, ours, float32, bfloat16, ratios } = told.row;
      row(
        ...[name, what, tenths(ours), tenths(float32), tenths(bfloat16)],
        ...[times(ratios.float32), times(ratios.bfloat16)],
      );
    }
  }
  const gigabytes = (bytes: number) => (bytes / 1e9).toFixed(2);
  console.log(
    '\nPeak memory of the processes in GB, seconds until martingale serve answers, and minutes of a GRPO step of 64 rollouts (200 tokens sampled of 400), computed from the rates above:\n',
  );
  head('shape', 'martingale GB', 'PyTorch fp32 GB', 'bf16 GB', 'serve s', 'GRPO step min');
  for (const { name, peakBytes, serveSeconds, grpoMinutes } of needed)
    row(
      ...[name, gigabytes(peakBytes.ours), gigabytes(peakBytes.float32), gigabytes(peakBytes.bfloat16)],
      ...[serveSeconds.toFixed(1), grpoMinutes === null ? '-' : grpoMinutes.toFixed(1)],
    );
}

async function llamaTable(
  { gguf, packages }: { gguf: string; packages: string },
  options: ReturnType<typeof llamaOptions>,
): Promise<void> {
  console.log(
    '\nSmolLM2-135M-Instruct on 2 threads: sampled tokens a second after prompts of 128 tokens, ours in float32 as dequantized from Q4_1:\n',
  );
  head('replies at once', 'what', 'tokens a second', 'martingale / this', 'peak GB');
  for await (const { batch, what, perSecond, ratio, peakBytes } of benchLlamaPeers({
    gguf,
    packages,
    ...options,
  }))
    row(batch, what, tenths(perSecond), times(ratio), (peakBytes / 1e9).toFixed(2));
}

/** The parts by name. Each reads its flags, then installs its peers, then measures and prints its table. */
const parts: Record<string, () => () => Promise<() => Promise<void>>> = {
  engine() {
    const options = engineOptions();
    return async () => {
      const python = await peerPython('torch');
      return () => engineTable(python, options);
    };
  },
  grpo() {
    const options = grpoOptions();
    return async () => {
      const python = await peerPython('torch');
      return () => grpoTable(python, options);
    };
  },
  chats() {
    const options = chatOptions();
    return async () => {
      const python = await peerPython('torch');
      return () => chatTable(python, options);
    };
  },
  rollouts() {
    const options = rolloutOptions();
    return async () => {
      const python = { art: await peerPython('art'), verifiers: await peerPython('verifiers') };
      return () => rolloutTable(python, options);
    };
  },
  llama() {
    const options = llamaOptions();
    return async () => {
      const [gguf, packages] = [await publishedGguf('llama'), await llamaCpp('llama')];
      if (gguf === null || packages === null) return async () => {};
      return () => llamaTable({ gguf, packages }, options);
    };
  },
  checkpoints() {
    const options = checkpointOptions();
    return async () => {
      const python = await peerPython('torch');
      return () => checkpointTable(python, options);
    };
  },
};

if (flags.help) console.log(usage);
else {
  const chosen = flags.only.split(',').map((name) => {
    const part = Object.hasOwn(parts, name) ? parts[name] : undefined;
    if (!part) throw new Error(`There is no part ${name}.\n\n${usage}`);
    return part();
  });
  const tables: (() => Promise<void>)[] = [];
  for (const install of chosen) tables.push(await install());
  const [load = 0] = loadavg();
  if (load > 0.5)
    console.error(
      `Other work runs on this machine (load average ${load.toFixed(1)}): PyTorch's figures will be too low.`,
    );
  console.log(machine);
  console.log('Medians of measurements taken in turn; above 1x martingale is faster.');
  for (const table of tables) await table();
}
