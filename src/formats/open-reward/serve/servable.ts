import type { ToolSet } from 'ai';
import type { Environment, LoopOutcome } from '../../../environment/index.ts';
import type { ToolList } from '../protocol.ts';
import { OpenRewardError } from '../server.ts';

/** An environment of pieces. Its schema is not known here: scenarios are parsed before. */
export type ServedEnvironment = Environment<Environment['scenario'], LoopOutcome<unknown>>;

/** The argument of the tool that takes a reply in words. */
export const replyArgument = 'text';

/** First parts of paths that name no environment. */
const ownPaths = [
  'health',
  'version',
  'ping',
  'list_environments',
  'create',
  'create_session',
  'delete',
  'delete_session',
  'tools',
  'splits',
  'tasks',
  'num_tasks',
  'task',
  'task_range',
  'task_tools',
  'prompt',
  'messages',
  'call',
  'score_group',
];

/** @throws OpenRewardError (`environment_not_servable`) that names what cannot be served. */
export function requireServable(environment: Environment): ServedEnvironment {
  const { name, limits, definition } = environment;
  const refuse = (what: string): never => {
    throw new OpenRewardError(
      'environment_not_servable',
      `environment "${name}" cannot be served over the Open Reward Standard: ${what}`,
    );
  };
  if (!/^[\w.-]+$/.test(name) || ownPaths.includes(name.toLowerCase()))
    refuse(
      'its name is a part of addresses. Name it with letters, digits, dots, hyphens and underscores, and not as a part of the standard.',
    );
  if (environment.seats.length > 0)
    refuse(`it has \`seats\` (${environment.seats.join(', ')}), and a client plays one.`);
  if (!isInPieces(environment))
    return refuse(
      'it has `rollout`, so its agent is its own code, and the client brings another one. Define it in pieces, with `prompt` and `tools`.',
    );
  if (definition.groupRewardNames.length > 0)
    refuse(
      `a client plays one episode at a time, and \`groupRewards\` (${definition.groupRewardNames.join(', ')}) need all rollouts of a scenario. Leave them out.`,
    );
  if (definition.credit === 'function')
    refuse('the trainer of the client credits its replies. Leave the function `credit` out.');
  if (limits.tokens !== undefined)
    refuse('tokens are counted by who samples them, so `limits.tokens` cannot be kept. Leave it out.');
  return environment;
}

const isInPieces = (environment: Environment): environment is ServedEnvironment =>
  environment.definition.form === 'pieces';

/** The tool that takes a reply in words. None of the environment has its name. */
export function replyToolOf(
  { definition: { tools, hasObserve } }: ServedEnvironment,
  { listReply }: { listReply: boolean },
): ReplyTool {
  let name = 'reply';
  while (Object.hasOwn(tools ?? {}, name)) name += '_';
  return { name, isListed: hasObserve || listReply };
}

/** How the tool that takes a reply in words is shown. */
export interface ReplyTool {
  name: string;
  /** Whether the model may call it. Else a client calls it with the words of a reply without calls. */
  isListed: boolean;
}

/**
 * The tools as a client lists them. Words end the conversation of most environments: that is a terminal tool. `observe`
 * may answer words: then the tool is also one of the model's, which can be called again.
 */
export function toolList(
  { definition: { hasObserve } }: ServedEnvironment,
  tools: ToolList['tools'],
  { name, isListed }: ReplyTool,
): object {
  const description = hasObserve
    ? 'Says something to the environment, in words, and returns its answer.'
    : 'Takes the reply in words that ends the conversation.';
  const input_schema = {
    type: 'object',
    properties: { [replyArgument]: { type: 'string' } },
    required: [replyArgument],
    additionalProperties: false,
  };
  return {
    tools: isListed ? [...tools, { name, description, input_schema }] : tools,
    terminal_tool: { name, description, arg: replyArgument },
    supports_score_group: false,
    message_block_types: ['text', 'image', 'reasoning', 'tool_call', 'tool_result'],
  };
}

/** The tools of every episode; none if each has its own. */
export async function commonTools({ definition: { tools } }: ServedEnvironment): Promise<ToolList['tools']> {
  const { asSchema } = await import('ai');
  const known: ToolSet = tools ?? {};
  return Promise.all(
    Object.entries(known).map(async ([name, { description = '', inputSchema }]) => ({
      name,
      description: typeof description === 'string' ? description : '',
      input_schema: { ...(await asSchema(inputSchema).jsonSchema) },
    })),
  );
}
