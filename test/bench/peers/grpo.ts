import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import { measureEngineStep } from './engine-step.ts';
import { type GrpoStep, type GrpoWork, measureGrpoStep, replyTokens } from './grpo-step.ts';
import { PeerProgram } from './peer-program.ts';
import { measureInTurn, median, medianRatio } from './rounds.ts';

const step = z.object({
  parameters: z.number(),
  promptTokens: z.number(),
  replyTokens: z.number(),
  milliseconds: z.number(),
  cpuMilliseconds: z.number(),
});
const tokenizer = fileURLToPath(
  new URL('../../../src/engines/embedded/built-in/tokenizer.json', import.meta.url),
);
const promptTokens = 16;

/** Rollouts before the counted ones, in at least six steps: V8 makes the code of a step a quarter faster over its first thousand. */
const warmRollouts = 960;

/**
 * Widths of the MLP of TRL's Llama. A third of the parameters of `martingale-tiny` are looked up by position or
 * previous token, not multiplied, so two models can count as equal: one with as many parameters (within 0.1%), and a
 * smaller one with as many multiplications a token.
 */
export const llamas = { parameters: 597, multiplications: 341 };

export interface GrpoPeerRow {
  size: string;
  what: string;
  /** Medians. */
  step: GrpoStep;
  /** TRL's time with as many parameters, relative to this. */
  ratio: number;
}

/** A step of GRPO, synchronous and pipelined, beside TRL's. */
export async function* benchGrpoPeers(options: {
  python: string;
  sizes: readonly { groups: number; rollouts: number }[];
  rounds: number;
}): AsyncGenerator<GrpoPeerRow> {
  const { python, sizes, rounds } = options;
  const threads = String(availableParallelism());
  await using trl = new PeerProgram(python, 'grpo.py', [tokenizer, threads]);
  for (const { groups, rollouts } of sizes) {
    const inRange = (steps: number) => Math.max(6, Math.min(30, Math.round(steps)));
    const work: GrpoWork = {
      groups,
      rollouts,
      warmSteps: inRange(warmRollouts / (groups * rollouts)),
      countedSteps: Math.min(10, inRange(800 / (groups * rollouts))),
    };
    const askTrl = (intermediate: number) =>
      trl.ask({ ...work, intermediate, promptTokens, replyTokens }, step);
    const steps = await measureInTurn(rounds, {
      'martingale, maxStaleness 0': () => measureGrpoStep({ ...work, maxStaleness: 0 }),
      'TRL, as many parameters': () => askTrl(llamas.parameters),
      'martingale, maxStaleness 1': () => measureGrpoStep({ ...work, maxStaleness: 1 }),
      'the engine alone': () => measureEngineStep(work),
      'TRL, as many multiplications': () => askTrl(llamas.multiplications),
    });
    const times = (measured: readonly GrpoStep[]) => measured.map(({ milliseconds }) => milliseconds);
    for (const [what, measured] of Object.entries(steps)) {
      const middle = (field: keyof GrpoStep) => median(measured.map((one) => one[field]));
      yield {
        size: `${groups}x${rollouts}`,
        what,
        step: {
          parameters: middle('parameters'),
          promptTokens: middle('promptTokens'),
          replyTokens: middle('replyTokens'),
          milliseconds: middle('milliseconds'),
          cpuMilliseconds: middle('cpuMilliseconds'),
        },
        ratio: medianRatio(times(steps['TRL, as many parameters']), times(measured)),
      };
    }
  }
}
