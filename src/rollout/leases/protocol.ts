import { z } from 'zod';
import type { RolloutFailure } from '../rollout.ts';
import { failureSchema } from '../sent/received.ts';
import type { BudgetReply, BudgetRequest } from '../sent/sent-rollout.ts';

/** Messages of the program to a worker. */
export type ToWorker =
  /** Runs a rollout: `start` is a SentStart, as structured clone. */
  | { type: 'run'; lease: string; epoch: number; start: Uint8Array }
  | { type: 'abort'; lease: string; reason: RolloutFailure }
  /** The program needs no workers any more. */
  | { type: 'closing' }
  | BudgetReply;

/** Messages of a worker to the program. `fromWorkerSchema` checks them; the lease checks the rollout. */
export type FromWorker =
  | { type: 'ended'; lease: string; epoch: number; rollout: unknown }
  /** It cannot read the rollout, or cannot send the result. */
  | { type: 'failed'; lease: string; epoch: number; failure: RolloutFailure }
  /** It takes no more leases, and ends those it has. */
  | { type: 'leaving' }
  /** It gives back the leases that it has. */
  | { type: 'left' }
  | BudgetRequest;

const id = z.string().max(100);
const number = z.number().int().min(0);

export const fromWorkerSchema = z.discriminatedUnion('type', [
  z.object({ type: z.literal('ended'), lease: id, epoch: number, rollout: z.unknown() }),
  z.object({ type: z.literal('failed'), lease: id, epoch: number, failure: failureSchema }),
  z.object({ type: z.literal('leaving') }),
  z.object({ type: z.literal('left') }),
  z.object({ type: z.literal('enter'), call: number, budget: number }),
  z.object({ type: z.literal('leave'), call: number }),
  z.object({ type: z.literal('limited'), call: number }),
  z.object({
    type: z.literal('release'),
    call: number,
    outcome: z.object({
      status: z.enum(['answered', 'rate_limited', 'failed']),
      durationMs: z.number().min(0),
    }),
  }),
]) satisfies z.ZodType<FromWorker>;

/** Messages in order, as `mailbox.ts` sends them. */
export const batchSchema = z.object({
  from: number,
  messages: z.array(z.instanceof(Uint8Array)).max(1_000_000),
});

/** Header of every answer of a program: it tells a worker that a program answers, not another server. */
export const programHeader = 'x-martingale-program';

/** What a worker says when it joins. */
export const joinRequestSchema = z.object({
  /** For people. */
  name: z.string().min(1).max(200),
  martingale: z.string().max(100),
  /** Version of V8's format for structured clones. */
  cloneFormat: z.number().int(),
  environment: z.string().max(1000),
  /** Hash of each file of the environment, by path relative to the first. */
  files: z.record(z.string().max(4096), z.string().max(200)),
  /** Most rollouts at a time. */
  concurrency: z.number().int().min(1).max(100_000),
});
export type JoinRequest = z.output<typeof joinRequestSchema>;

export const joinAnswerSchema = z.object({
  worker: z.string(),
  /** A worker that is silent for so long loses its leases. */
  leaseMs: z.number(),
  /** How long a poll without a message takes. */
  pollMs: z.number(),
});
export type JoinAnswer = z.output<typeof joinAnswerSchema>;

export const refusalSchema = z.object({ error: z.object({ code: z.string(), message: z.string() }) });

/** A poll says up to which number messages have arrived, and so does the answer to messages. */
export const receivedSchema = z.object({ received: z.number().int().min(0) });
