import { z } from 'zod';
import { foreignFieldOf, type ParsedSftExample, sftExampleSchema } from '../../contract/index.ts';
import type { BaseModel, Engine } from '../../engines/engine.ts';
import { charactersIn } from '../../language/basics.ts';
import type { Constraint, Reply } from '../../language/index.ts';
import type { Datum, SampledSequence } from '../../learning/index.ts';
import { sumOf } from '../../util/sums.ts';
import { TimeSlices } from '../../util/time-slices.ts';
import { invalidField, messageOf, RequestValidationError, ServiceError } from '../errors.ts';
import type { Constraints } from '../inference/constraints.ts';
import { checkTools } from '../inference/model-checks.ts';
import type { BaseModelTools } from '../inference/resolve-model.ts';
import { readText, type TextKind } from '../json/read-text.ts';
import { validate } from '../validation.ts';
import { exampleConversation, toReply } from './example-conversation.ts';
import { type TrainingConversation, toSequence } from './sequences.ts';
import type { CountedBatch, PreparedTraining } from './train-job.ts';

/** The options of an SFT job with every default filled in, as stored in its record. */
export const resolvedSftConfigSchema = z.object({
  batch_size: z.number().int(),
  learning_rate: z.union([z.number(), z.array(z.number())]),
  // Records in older data folders lack the next two fields.
  assistant_turns: z.enum(['all', 'last']).default('all'),
  metric_logging: z
    .object({ enabled: z.boolean(), target_training_step: z.number().int().nullable() })
    .default({ enabled: true, target_training_step: null }),
  num_examples: z.number().int(),
  num_batches: z.number().int(),
});

export type ResolvedSftConfig = z.infer<typeof resolvedSftConfigSchema>;

interface SftJobDependencies {
  engine: Engine;
  constraints: Constraints;
  tools: BaseModelTools;
  base: BaseModel;
}

interface NumberedLine {
  line: string;
  number: number;
}

/** A line of training data. */
export const exampleText: TextKind<ParsedSftExample> = {
  name: 'example',
  validate(value) {
    try {
      return validate(sftExampleSchema, value, 'body');
    } catch (error) {
      const foreign = foreignFieldOf(value);
      throw foreign ? invalidField(foreign.path, foreign.remedy, foreign.value) : error;
    }
  },
};

/** Reads one line of training data. Issues name the number of the line. */
export async function readExample(
  { line, number }: NumberedLine,
  slices = new TimeSlices(),
): Promise<ParsedSftExample> {
  try {
    return await readText(exampleText, Buffer.from(line), { slices });
  } catch (error) {
    if (!(error instanceof RequestValidationError)) throw error;
    throw new RequestValidationError(
      error.issues.map((issue) => ({
        ...issue,
        loc: ['body', `line ${number}`, ...issue.loc.slice(1)],
        msg: `line ${number}: ${issue.msg}`,
      })),
    );
  }
}

/** Prepares one pass over the data in order, with a gradient step for each batch. */
export function prepareSftJob(
  lines: AsyncIterable<NumberedLine>,
  config: ResolvedSftConfig,
  dependencies: SftJobDependencies,
  signal: AbortSignal,
): PreparedTraining {
  return {
    steps: config.num_batches,
    batches: oneAhead(toBatches(lines, config, dependencies, signal)),
    keepsMetrics: config.metric_logging.enabled,
  };
}

async function* toBatches(
  lines: AsyncIterable<NumberedLine>,
  config: ResolvedSftConfig,
  dependencies: SftJobDependencies,
  signal: AbortSignal,
): AsyncGenerator<CountedBatch> {
  let waiting: NumberedLine[] = [];
  let index = 0;
  for await (const line of lines) {
    signal.throwIfAborted();
    waiting.push(line);
    if (waiting.length < config.batch_size) continue;
    yield await toBatch(waiting, index++, config, dependencies, signal);
    waiting = [];
  }
  if (waiting.length > 0) yield await toBatch(waiting, index, config, dependencies, signal);
}

/**
 * Makes a batch whose loss is the mean cross-entropy of its reply tokens: each weighs 1 / (tokens of all replies).
 * Tokens that a constraint forces count too, although they have no gradient. So the weights of the decisions may add up
 * to less than 1, and a batch of mostly forced replies makes a smaller step than one of free text.
 */
async function toBatch(
  lines: NumberedLine[],
  index: number,
  { learning_rate: rate, assistant_turns: trained }: ResolvedSftConfig,
  { engine, constraints, tools, base }: SftJobDependencies,
  signal: AbortSignal,
): Promise<CountedBatch> {
  const conversations: TrainingConversation[] = [];
  const replies: Reply[] = [];
  /** Sets the token ids of each reply. */
  const setTokenIds: ((tokenIds: number[]) => void)[] = [];
  const slices = new TimeSlices();
  for (const line of lines) {
    if (slices.over) await slices.pause();
    const conversation = await atLine(line, async () => {
      const example = await readExample(line, slices);
      checkTools(example, tools.format, base.id);
      tools.renderer.checkSize(charactersIn(example.messages), base.contextLength);
      return exampleConversation(example, line, { base, format: tools.format, constraints, trained });
    });
    conversations.push(conversation);
    for (const [position, sampled] of conversation.sampled.entries()) {
      const turn = conversation.turns[position];
      if (!turn || !sampled || turn.tokenIds) continue;
      replies.push(toReply(turn, sampled.constraint, tools.format));
      setTokenIds.push((tokenIds) => {
        // The ids replace text, reasoning and calls, as in a sampled conversation.
        conversation.turns[position] = { role: 'assistant', content: '', toolCalls: [], tokenIds };
      });
    }
  }
  const encoded = await engine.encodeReplies(base.id, replies, { signal }).catch((cause: unknown) => {
    signal.throwIfAborted();
    const [first, last] = [lines[0]?.number, lines.at(-1)?.number];
    const at = first === last ? `line ${first}` : `lines ${first} to ${last}`;
    throw new ServiceError(422, 'reply_not_encodable', `${at}: ${messageOf(cause)}`, { cause });
  });
  for (const [at, set] of setTokenIds.entries()) set(encoded[at] ?? []);
  const sequences: SampledSequence<Constraint>[] = [];
  for (const conversation of conversations) {
    conversation.sampled.forEach((sampled, position) => {
      if (sampled) sampled.logprobs = (conversation.turns[position]?.tokenIds ?? []).map(() => null);
    });
    sequences.push(await toSequence(conversation, tools, base.contextLength));
  }
  const replyTokens = sumOf(sequences, ({ spans }) => sumOf(spans, (span) => span.length));
  const datums: Datum<Constraint>[] = sequences.map(({ tokens, spans }) => ({
    tokens,
    spans: spans.map((span) => ({ ...span, advantage: 1, weight: 1 / replyTokens })),
  }));
  return {
    batch: {
      datums,
      loss: { type: 'cross_entropy' },
      reference: null,
      learningRate: typeof rate === 'number' ? rate : (rate[index] ?? base.defaults.sftLearningRate),
    },
    counts: {
      num_datums: datums.length,
      num_trainable_tokens: replyTokens,
      train_tokens: sumOf(sequences, ({ tokens }) => tokens.length),
    },
  };
}

async function atLine<Result>({ number }: NumberedLine, work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (cause) {
    const message = messageOf(cause);
    if (message.includes(`line ${number}`)) throw cause;
    throw new ServiceError(422, 'bad_training_data', `line ${number}: ${message}`, { cause });
  }
}

/** Prepares the next batch while the engine trains on the current one. */
async function* oneAhead<Item>(items: AsyncGenerator<Item>): AsyncGenerator<Item> {
  let next = items.next();
  try {
    for (;;) {
      const current = await next;
      if (current.done) return;
      next = items.next();
      // A rejection is thrown in the next round; until then it must not count as unhandled.
      next.catch(() => {});
      yield current.value;
    }
  } finally {
    await items.return(undefined).catch(() => {});
  }
}
