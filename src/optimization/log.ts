import { join } from 'node:path';
import { z } from 'zod';
import { DurableAppends, readIfExists } from '../util/durable-files.ts';
import { messageOf } from '../util/error.ts';
import { resumeLines } from '../util/json-lines.ts';
import { RunError } from '../util/run-error.ts';

/** File in the run directory; its presence tells that the run is an optimisation. */
export const optimizationFile = 'optimization.jsonl';

const count = z.number().int().min(0);
const usage = z.object({ promptTokens: count, sampledTokens: count });

const spentSchema = z.object({
  rollouts: count,
  /** Tokens of all rollouts, completed or not. */
  model: usage,
  /** Tokens of `reflect`. */
  reflect: usage,
  /** In the unit of the prices; null without them. */
  cost: z.number().nullable(),
  /** Wall-clock seconds. */
  seconds: z.number(),
});

const candidateSchema = z.object({
  /** 0 is the environment's own texts. */
  number: count,
  /** The candidate that it was made of; null for 0. */
  parent: count.nullable(),
  texts: z.record(z.string(), z.string()),
  /** Mean reward of each validation scenario, in their order. */
  rewards: z.array(z.number()),
  /** Mean success of each validation scenario; null where it is unknown. */
  success: z.array(z.number().nullable()),
});

/** An answer of `reflect`, on disk before it is used. */
const proposalSchema = z.object({
  type: z.literal('proposal'),
  iteration: count,
  /** Name of the text. */
  text: z.string(),
  /** The new text; null if the answer has none. */
  proposed: z.string().nullable(),
  /** The whole answer of a model; null from a function. */
  answer: z.string().nullable(),
  usage,
});

const iterationSchema = z.object({
  type: z.literal('iteration'),
  /** From 1; 0 is the validation of the environment's own texts. */
  iteration: count,
  /** The candidate that was drawn; null for iteration 0. */
  parent: count.nullable(),
  /** Name of the text that was reflected on; null if there was no reflection. */
  text: z.string().nullable(),
  /**
   * `accepted`: there is a new candidate. `rejected`: the proposal did no better on the minibatch, or could not be
   * validated. `no_proposal`: the answer had no new text. `solved`: every rollout of the minibatch succeeded, so there
   * was nothing to reflect on.
   */
  outcome: z.enum(['accepted', 'rejected', 'no_proposal', 'solved']),
  because: z.string().nullable(),
  /** Indices of the minibatch's scenarios. */
  scenarios: z.array(count),
  /** Mean reward of each scenario of the minibatch with the parent and with the proposal; null without a completed rollout. */
  before: z.array(z.number().nullable()),
  after: z.array(z.number().nullable()),
  candidate: candidateSchema.nullable(),
  /** All that the run had used by then. */
  spent: spentSchema,
});

const recordSchema = z.discriminatedUnion('type', [proposalSchema, iterationSchema]);

export type OptimizationSpent = z.output<typeof spentSchema>;
export type OptimizationCandidate = z.output<typeof candidateSchema>;
export type OptimizationProposal = z.output<typeof proposalSchema>;
export type OptimizationIteration = z.output<typeof iterationSchema>;
export type OptimizationRecord = z.output<typeof recordSchema>;

/** The records of an optimisation, in `optimization.jsonl`. A record is durable before it is used. */
export class OptimizationLog {
  readonly iterations: OptimizationIteration[] = [];
  /** The proposal of the iteration in progress, if it has one. */
  #proposal: OptimizationProposal | undefined;
  readonly #appends: DurableAppends;

  private constructor(path: string, records: readonly OptimizationRecord[]) {
    this.#appends = new DurableAppends(path);
    for (const record of records) this.#take(record);
  }

  /** Reads the records of an earlier call, and removes half a line that a killed process left. */
  static async open(folder: string): Promise<OptimizationLog> {
    const path = join(folder, optimizationFile);
    const records: OptimizationRecord[] = [];
    for await (const line of resumeLines(path)) records.push(parse(path, records.length + 1, line));
    return new OptimizationLog(path, records);
  }

  async append(record: OptimizationRecord): Promise<void> {
    await this.#appends.append(() => `${JSON.stringify(record)}\n`);
    this.#take(record);
  }

  /** The answer that an unfinished iteration has paid for. */
  proposalOf(iteration: number): OptimizationProposal | undefined {
    return this.#proposal?.iteration === iteration ? this.#proposal : undefined;
  }

  get candidates(): OptimizationCandidate[] {
    return this.iterations.flatMap(({ candidate }) => candidate ?? []);
  }

  #take(record: OptimizationRecord): void {
    if (record.type === 'proposal') this.#proposal = record;
    else this.iterations.push(record);
  }
}

/** Reads the records of a run, which may be in progress. Null if it is no optimisation. @throws RunError */
export async function readOptimization(folder: string): Promise<OptimizationRecord[] | null> {
  const path = join(folder, optimizationFile);
  const text = await readIfExists(path);
  if (text === undefined) return null;
  // Text after the last line feed is half a line.
  return text
    .split('\n')
    .slice(0, -1)
    .map((line, at) => parse(path, at + 1, line));
}

function parse(path: string, line: number, text: string): OptimizationRecord {
  try {
    return recordSchema.parse(JSON.parse(text));
  } catch (cause) {
    throw new RunError(
      'invalid_run_record',
      `Line ${line} of ${path} is no record of an optimisation: ${messageOf(cause)}`,
      { cause },
    );
  }
}
