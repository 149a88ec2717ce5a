import { isRequestError } from '../client/index.ts';
import type { ChatCompletionRequest, Choice, Message, Tool } from '../contract/index.ts';
import { askedFormOf, type Trajectory } from '../trajectory/index.ts';

/** A call between its beginning and its end. It ends once: recorded, or with a noted failure. */
export interface StartedCall {
  body: ChatCompletionRequest & { stream?: false };
  /** The messages as the agent sent them. A repetition of a failed call has the same ones. */
  asked: readonly Message[];
  tools: Tool[] | undefined;
  signal: AbortSignal | undefined;
  trajectory: Trajectory | undefined;
  /** The trajectory of the async scope, even if the call is not recorded. */
  scope: Trajectory | undefined;
  index: number;
  /** Identifies the call in its trajectory; undefined if it is not recorded. */
  callId: string | undefined;
  /** Whether the agent set the call's seed. */
  hasAgentSeed: boolean;
  /** When it began and when it was sent, in milliseconds of its trajectory. */
  begunMs: number;
  sentMs: number;
  /** Whether its answer is recorded, or its failure noted. */
  hasEnded?: boolean;
}

/** Records the answer of a call in its trajectory. */
export function recordAnswer(
  call: StartedCall,
  choice: Choice,
  promptTokenIds: number[],
  model: string,
): void {
  const { trajectory, index, tools, body } = call;
  call.hasEnded = true;
  if (!trajectory) return;
  const { begunMs, sentMs } = call;
  const times = [tenths(begunMs), tenths(sentMs), tenths(trajectory.milliseconds)] as const;
  const { messages } = body;
  const askedForm = askedFormOf(body);
  trajectory.record({ index, messages, tools, askedForm, choice, promptTokenIds, model, times });
  trajectory.endCall(isCutByContext(body, choice) ? 'cut_by_context' : 'answered', index);
  const { observations } = trajectory;
  if (isGreedy(body, choice)) observations.greedyCalls++;
  if (call.hasAgentSeed) observations.agentSeeds++;
}

const tenths = (milliseconds: number): number => Math.round(milliseconds * 10) / 10;

/** Whether the reply was cut before it reached the requested maximum of tokens: the context was full. */
function isCutByContext(
  { max_completion_tokens, max_tokens }: ChatCompletionRequest,
  { finish_reason, token_ids }: Choice,
): boolean {
  const requested = max_completion_tokens ?? max_tokens ?? Number.POSITIVE_INFINITY;
  return finish_reason === 'length' && (token_ids?.length ?? 0) < requested;
}

/** Uses the sampling settings reported by the service, or else the requested ones. */
function isGreedy({ temperature, top_k }: ChatCompletionRequest, { sampling }: Choice): boolean {
  const used = sampling ?? { temperature, top_k };
  return used.temperature === 0 || used.top_k === 1;
}

/** Notes once that a call got no answer. */
export function noteFailure(call: StartedCall, error: unknown): void {
  if (call.hasEnded) return;
  call.hasEnded = true;
  call.scope?.failCall(error, call.asked);
}

/** Whether the service refused a recorded call for the length of its prompt, which is the policy's doing. */
export const isTooLong = ({ trajectory }: StartedCall, error: unknown): boolean =>
  trajectory !== undefined && isRequestError(error, 'context_length_exceeded');
