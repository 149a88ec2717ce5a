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
 * Puts back what the policy sampled. Agents' libraries rewrite history (arguments are written again, malformed ones
 * become `{}`), so assistant messages that recorded calls sampled are replaced by those calls' own text and
 * `token_ids`. They are found by what they say: a message is a call's reply where everything before it is what was
 * sent then, and its text and the ids and names of its tool calls are still the sampled ones. Everything up to the
 * last such message then goes out as it did before, object for object. An edited conversation goes out as text from
 * the edit on, and a new history begins by itself.
 *
 * Tool arguments are not compared: a tool's schema may have filled in defaults, and the call's id tells them apart.
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
  /** Calls that went on from this reply. */
  continuations: number;
}

interface Place {
  /** What may come next: a message that nobody sampled, or a reply, under its own kind of key. */
  readonly next: Map<string, Place>;
  readonly replies: Map<string, Candidate[]>;
  /** Calls that began here and had no answer when last looked at. */
  readonly open: Set<string>;
}

/** The deepest place in a prompt that a recorded reply stands at. */
export interface SampledPlace {
  /** Index of the message that is the reply. */
  index: number;
  call: RecordedCall;
}

export interface TracedPrompt {
  messages: readonly Message[];
  /** `callIds[i]` is the call that is known to have sampled `messages[i]`. */
  callIds: readonly (string | undefined)[];
  /** Whether a reply that comes back without its reasoning is still that reply. */
  mayDropReasoning: boolean;
}

const begin = (): Place => ({ next: new Map(), replies: new Map(), open: new Set() });

/**
 * The conversations of a trajectory as a tree of messages, so that a prompt finds what was sampled in it in one walk:
 * its cost is the length of the prompt, however many calls there were.
 */
export class ConversationTree {
  readonly #trajectory: Trajectory;
  readonly #root = begin();

  constructor(trajectory: Trajectory) {
    this.#trajectory = trajectory;
  }

  /** Takes note that the call is made with this prompt, and says what in it was sampled. */
  place(callId: string, prompt: TracedPrompt): SampledPlace | undefined {
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

  /** Recorded replies to what comes before the message, of which it may be one. */
  #candidates(place: Place, message: Message, { mayDropReasoning }: TracedPrompt): Candidate[] {
    if (message.role !== 'assistant') return [];
    this.#settle(place);
    const now = reasoningOf(message);
    const mayDrop = mayDropReasoning && now === '';
    const alike = place.replies.get(replyKey(message)) ?? [];
    return alike.filter(({ call }) => mayDrop || reasoningOf(call.choice.message) === now);
  }

  #settle({ open, replies }: Place): void {
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

function step({ next }: Place, message: Message, isReply: boolean): Place {
  const said =
    isReply && message.role === 'assistant'
      ? `reply ${replyKey(message)} ${reasoningOf(message)}`
      : `message ${messageKey(message)}`;
  // The text itself is in the recorded calls: a tree that kept it too would double a long rollout's memory.
  const key = said.length > 64 ? crypto.hash('sha256', said, 'base64') : said;
  const known = next.get(key);
  if (known) return known;
  const place = begin();
  next.set(key, place);
  return place;
}

/**
 * Of replies that say the same: the one that is known to be meant, else one that nothing has gone on from, so that of
 * several alike each is gone on from once.
 */
function choose(candidates: Candidate[], callId: string | undefined): Candidate {
  return candidates.reduce((best, other) => {
    if (best.callId === callId) return best;
    return other.callId === callId || other.continuations < best.continuations ? other : best;
  });
}
