import { availableParallelism, loadavg } from 'node:os';
import { parseArgs } from 'node:util';
import { head, machine, row, whole } from '../table.ts';
import { benchEnginePeers } from './engine.ts';
import { peersPython } from './environment.ts';
import { benchGrpoPeers } from './grpo.ts';

const usage = `Usage: npm run bench:peers -- [options]

Measures martingale beside PyTorch and TRL, in turn, on this machine. The first run installs them.

  --only PARTS      engine, grpo, or both separated by a comma. Default: both
  --quick           fewer sizes and rounds: a minute or two for each part
  --threads LIST    engine: numbers of threads. Default 1,2; with --quick 2
  --batches LIST    engine: batch sizes. Default 1,8,32,128; with --quick 8,128
  --sizes LIST      grpo: groups x rollouts of a step. Default 4x8,12x8,48x8; with --quick 12x8
  --rounds N        measurements of each figure, whose median counts. Default: engine 7, grpo 4; with --quick 3 and 2`;

const { values: flags } = parseArgs({
  options: {
    only: { type: 'string', default: 'engine,grpo' },
    quick: { type: 'boolean', default: false },
    threads: { type: 'string' },
    batches: { type: 'string' },
    sizes: { type: 'string' },
    rounds: { type: 'string' },
    help: { type: 'boolean', default: false },
  },
});

const wholeNumber = (text: string) => {
  if (!/^[1-9]\d*$/.test(text)) throw new Error(`${text} is not a whole number of at least 1.\n\n${usage}`);
  return Number(text);
};
const numbers = (text: string) => text.split(',').map(wholeNumber);
const times = (ratio: number) => `${ratio.toFixed(2)}x`;

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

/** The parts by name. Each reads its flags and returns what measures and prints its table. */
const parts: Record<string, () => (python: string) => Promise<void>> = {
  engine() {
    const options = engineOptions();
    return (python) => engineTable(python, options);
  },
  grpo() {
    const options = grpoOptions();
    return (python) => grpoTable(python, options);
  },
};

if (flags.help) console.log(usage);
else {
  const tables = flags.only.split(',').map((name) => {
    const part = Object.hasOwn(parts, name) ? parts[name] : undefined;
    if (!part) throw new Error(`There is no part ${name}.\n\n${usage}`);
    return part();
  });
  const python = await peersPython();
  const [load = 0] = loadavg();
  if (load > 0.5)
    console.error(
      `Other work runs on this machine (load average ${load.toFixed(1)}): PyTorch's figures will be too low.`,
    );
  console.log(machine);
  console.log('Medians of measurements taken in turn; above 1x martingale is faster.');
  for (const table of tables) await table(python);
}
