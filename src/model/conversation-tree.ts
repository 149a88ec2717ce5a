import crypto from 'node:crypto';
import type { Message } from '../contract/index.ts';
import {
  type PromptMessages,
  type RecordedCall,
  sampledMessage,
  type Trajectory,
} from '../trajectory/index.ts';
import { messageKey, reasoningOf, replyKey } from './message-key.ts';

const trees = new WeakMap<Trajectory, ConversationTree>();

export interface RestoreOptions {
  /** The call that the prompt is for. */
  callId: string;
  sendTokenIds: boolean;
}

/**
 * Restores the sampled replies in a prompt. Agent libraries rewrite history (they serialize arguments again, and
 * replace malformed ones with `{}`), so assistant messages sampled by recorded calls are replaced with the sampled text
 * and `token_ids`. Replies are found by content: a message is a call's reply if all messages before it match that
 * call's prompt, and its text and the ids and names of its tool calls are unchanged. The prompt up to the last such
 * message is then sent exactly as before, with the same objects. From an edited message on, the conversation is sent
 * as text, which starts a new history.
 *
 * Tool arguments are not compared, because a tool's schema may have filled in defaults. The call ids identify them.
 */
export function restoreSampled(
  { messages, callIds, mayDropReasoning = false }: PromptMessages,
  trajectory: Trajectory,
  { callId, sendTokenIds }: RestoreOptions,
): Message[] {
  const found = treeOf(trajectory).place(callId, { messages, callIds, mayDropReasoning });
  if (!found) return [...messages];
  const { index, call } = found;
  const reply = sampledMessage(call.choice, { tokenIds: sendTokenIds });
  return [...call.messages, reply, ...messages.slice(index + 1)];
}

function treeOf(trajectory: Trajectory): ConversationTree {
  const known = trees.get(trajectory);
  if (known) return known;
  const tree = new ConversationTree(trajectory);
  trees.set(trajectory, tree);
  trajectory.signal?.addEventListener('abort', () => trees.delete(trajectory), { once: true });
  return tree;
}

interface Candidate {
  callId: string;
  call: RecordedCall;
  /** Number of calls that continued from this reply. */
  continuations: number;
}

interface TreeNode {
  /** Next nodes. Replies and other messages have different kinds of keys. */
  readonly next: Map<string, TreeNode>;
  readonly replies: Map<string, Candidate[]>;
  /** Calls that began here and were unanswered when last checked. */
  readonly open: Set<string>;
}

/** The last recorded reply in a prompt. */
export interface SampledReply {
  /** Index of the reply's message. */
  index: number;
  call: RecordedCall;
}

export interface TracedPrompt {
  messages: readonly Message[];
  /** `callIds[i]` is the call that sampled `messages[i]`, if known. */
  callIds: readonly (string | undefined)[];
  /** Whether a reply without its reasoning still matches. */
  mayDropReasoning: boolean;
}

const begin = (): TreeNode => ({ next: new Map(), replies: new Map(), open: new Set() });

/**
 * The conversations of a trajectory as a tree of messages. It finds the sampled replies of a prompt in one walk, at a
 * cost that depends on the prompt's length, not on the number of calls.
 */
export class ConversationTree {
  readonly #trajectory: Trajectory;
  readonly #root = begin();

  constructor(trajectory: Trajectory) {
    this.#trajectory = trajectory;
  }

  /** Adds the call's prompt to the tree and returns the last sampled reply in it. */
  place(callId: string, prompt: TracedPrompt): SampledReply | undefined {
    let place = this.#root;
    let deepest: { index: number; candidates: Candidate[] } | undefined;
    for (const [index, message] of prompt.messages.entries()) {
      const candidates = this.#candidates(place, message, prompt);
      if (candidates.length > 0) deepest = { index, candidates };
      place = step(place, message, candidates.length > 0);
    }
    place.open.add(callId);
    if (!deepest) return undefined;
    const { index, candidates } = deepest;
    const chosen = choose(candidates, prompt.callIds[index]);
    chosen.continuations++;
    return { index, call: chosen.call };
  }

  /** The recorded replies at this node that match the message. */
  #candidates(place: TreeNode, message: Message, { mayDropReasoning }: TracedPrompt): Candidate[] {
    if (message.role !== 'assistant') return [];
    this.#settle(place);
    const now = reasoningOf(message);
    const mayDrop = mayDropReasoning && now === '';
    const alike = place.replies.get(replyKey(message)) ?? [];
    return alike.filter(({ call }) => mayDrop || reasoningOf(call.choice.message) === now);
  }

  #settle({ open, replies }: TreeNode): void {
    for (const callId of open) {
      const call = this.#trajectory.call(callId);
      if (!call) continue;
      open.delete(callId);
      const key = replyKey(call.choice.message);
      const alike = replies.get(key);
      const candidate = { callId, call, continuations: 0 };
      if (alike) alike.push(candidate);
      else replies.set(key, [candidate]);
    }
  }
}

function step({ next }: TreeNode, message: Message, isReply: boolean): TreeNode {
  const said =
    isReply && message.role === 'assistant'
      ? `reply ${replyKey(message)} ${reasoningOf(message)}`
      : `message ${messageKey(message)}`;
  // Long keys are hashed: the recorded calls already hold the text, and a second copy would double a rollout's memory.
  const key = said.length > 64 ? crypto.hash('sha256', said, 'base64') : said;
  const known = next.get(key);
  if (known) return known;
  const place = begin();
  next.set(key, place);
  return place;
}

/**
 * Chooses among equal replies: the one with this call id, or else the one with the fewest continuations, so that equal
 * replies are each continued once.
 */
function choose(candidates: Candidate[], callId: string | undefined): Candidate {
  return candidates.reduce((best, other) => {
    if (best.callId === callId) return best;
    return other.callId === callId || other.continuations < best.continuations ? other : best;
  });
}
