import type { Message } from '../contract/index.ts';
import { type PromptMessages, sampledMessage, type Trajectory } from '../trajectory/index.ts';
import { ConversationTree } from './conversation-tree.ts';

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
