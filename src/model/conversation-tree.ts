import crypto from 'node:crypto';
import type { Message } from '../contract/index.ts';
import {
  joinedReply,
  messageKey,
  type PromptMessages,
  type RecordedCall,
  reasoningOf,
  replyKey,
  sampledMessage,
  type Trajectory,
} from '../trajectory/index.ts';

const trees = new WeakMap<Trajectory, ConversationTree>();

/**
 * Restores the sampled replies in a prompt. Agent libraries rewrite history (they serialize arguments again, and
 * replace malformed ones with `{}`), so assistant messages sampled by recorded calls are replaced with the sampled text
 * and `token_ids`. Replies are found by content: a message is a call's reply if all messages before it match that
 * call's prompt, and its text and the ids and names of its tool calls are unchanged. The prompt up to the last such
 * message is then sent exactly as before, with the same objects. From an edited message on, the conversation is sent
 * as text, which starts a new history.
 *
 * Tool arguments are not compared, because a tool's schema may have filled in defaults. The call ids identify them.
 *
 * @param options.index Index of the call that the prompt is for; absent if there is none.
 */
export function restoreSampled(
  prompt: PromptMessages,
  trajectory: Trajectory,
  { index, sendTokenIds }: { index?: number; sendTokenIds: boolean },
): Message[] {
  const { messages } = prompt;
  const found = treeOf(trajectory).match(index, prompt);
  if (!found) return [...messages];
  const reply = sampledMessage(found.call.choice, { tokenIds: sendTokenIds });
  return [...found.call.messages, reply, ...messages.slice(found.at + 1)];
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
  call: RecordedCall;
  /** Number of calls that continued from this reply. */
  continuations: number;
}

/** A node makes its maps when it needs them, because thousands of trees are in memory while their calls wait. */
interface TreeNode {
  /** Next nodes. Replies and other messages have different kinds of keys. */
  next: Map<string, TreeNode> | undefined;
  replies: Map<string, Candidate[]> | undefined;
  /** Calls that began here and were unanswered when last checked. */
  open: Set<number> | undefined;
}

const newNode = (): TreeNode => ({ next: undefined, replies: undefined, open: undefined });

/**
 * The conversations of a trajectory as a tree of messages. It finds the sampled replies of a prompt in one walk, at a
 * cost that depends on the prompt's length, not on the number of calls.
 */
class ConversationTree {
  readonly #trajectory: Trajectory;
  readonly #root = newNode();

  constructor(trajectory: Trajectory) {
    this.#trajectory = trajectory;
  }

  /** Adds the call's prompt to the tree. Returns the call of the last sampled reply in it, at message `at`. */
  match(index: number | undefined, prompt: PromptMessages): { at: number; call: RecordedCall } | undefined {
    let node = this.#root;
    let deepest: { at: number; candidates: Candidate[] } | undefined;
    let next = 0;
    for (const [index, first] of prompt.messages.entries()) {
      if (index < next) continue;
      const { at, message, candidates } = this.#read(node, first, index, prompt);
      next = at + 1;
      if (candidates.length > 0) deepest = { at, candidates };
      node = step(node, message, candidates.length > 0);
    }
    if (index !== undefined) {
      node.open ??= new Set();
      node.open.add(index);
    }
    if (!deepest) return undefined;
    const { at, candidates } = deepest;
    const chosen = this.#choose(candidates, prompt.callIds[at]);
    if (index !== undefined) chosen.continuations++;
    return { at, call: chosen.call };
  }

  /**
   * The message at `index`, and the recorded replies at this node that match it. Some agent libraries send the parts of a
   * reply as messages of their own: where these match together, they are one message, and `at` is its last part.
   */
  #read(node: TreeNode, first: Message, index: number, prompt: PromptMessages) {
    const { messages } = prompt;
    let found = { at: index, message: first, candidates: this.#candidates(node, first, prompt) };
    let joined = joinedReply(first, messages[index + 1]);
    for (let at = index + 1; joined; joined = joinedReply(joined, messages[++at])) {
      const candidates = this.#candidates(node, joined, prompt);
      if (candidates.length > 0) found = { at, message: joined, candidates };
    }
    return found;
  }

  /** The recorded replies at this node that match the message. */
  #candidates(node: TreeNode, message: Message, { mayDropReasoning }: PromptMessages): Candidate[] {
    if (message.role !== 'assistant') return [];
    this.#settle(node);
    const reasoning = reasoningOf(message);
    const mayDrop = mayDropReasoning && reasoning === '';
    const alike = node.replies?.get(replyKey(message)) ?? [];
    return alike.filter(({ call }) => mayDrop || reasoningOf(call.choice.message) === reasoning);
  }

  #settle(node: TreeNode): void {
    for (const index of node.open ?? []) {
      const call = this.#trajectory.log.get(index);
      if (!call) continue;
      node.open?.delete(index);
      const key = replyKey(call.choice.message);
      node.replies ??= new Map();
      const alike = node.replies.get(key) ?? [];
      node.replies.set(key, alike);
      alike.push({ call, continuations: 0 });
    }
  }

  /**
   * Chooses among equal replies: the one with this call id, or else the one with the fewest continuations, so that equal
   * replies are each continued once.
   */
  #choose(candidates: Candidate[], callId: string | undefined): Candidate {
    const named = candidates.find(({ call }) => this.#trajectory.callId(call.index) === callId);
    if (named) return named;
    return candidates.reduce((best, other) => (other.continuations < best.continuations ? other : best));
  }
}

function step(from: TreeNode, message: Message, isReply: boolean): TreeNode {
  const content =
    isReply && message.role === 'assistant'
      ? `reply ${replyKey(message)} ${reasoningOf(message)}`
      : `message ${messageKey(message)}`;
  // Long keys are hashed: the recorded calls already hold the text, and a second copy would double a rollout's memory.
  const key = content.length > 64 ? crypto.hash('sha256', content, 'base64') : content;
  from.next ??= new Map();
  const node = from.next.get(key) ?? newNode();
  from.next.set(key, node);
  return node;
}
