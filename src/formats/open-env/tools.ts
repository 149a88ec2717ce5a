import type { ToolSet } from 'ai';
import type { Trajectory } from '../../trajectory/index.ts';
import type { Episode } from './episode.ts';
import { OpenEnvError } from './error.ts';
import { type Observed, type ToolList, toolListSchema, toolResultSchema } from './protocol.ts';

/** The tools of an environment of the Model Context Protocol. @throws OpenEnvError if it has none. */
export async function listTools(episode: Episode, signal: AbortSignal): Promise<ToolList> {
  let seen: Observed;
  try {
    seen = await episode.step({ type: 'list_tools' }, signal);
  } catch (error) {
    if (OpenEnvError.isInstance(error) && error.code === 'environment_server_refused')
      throw new OpenEnvError(
        'bad_option',
        `\`action\` is missing: the environment has no tools. ${error.message}`,
      );
    throw error;
  }
  const parsed = toolListSchema.safeParse(seen.observation);
  if (parsed.success) return parsed.data.tools;
  throw new OpenEnvError(
    'bad_option',
    '`action` is missing: `list_tools` of the environment returned no tools.',
  );
}

/** The environment's tools for the agent. What a wrong call gets is an answer to the model, not an error. */
export async function toolsOf(episode: Episode, tools: ToolList, trajectory: Trajectory): Promise<ToolSet> {
  const { jsonSchema, tool } = await import('ai');
  return Object.fromEntries(
    tools.map(({ name, description, input_schema: schema }) => [
      name,
      tool({
        description: description ?? '',
        inputSchema: jsonSchema<Record<string, unknown>>(schema ?? { type: 'object', properties: {} }),
        execute: async (input, { abortSignal }) => {
          if (episode.isDone) return 'The episode is over.';
          const action = { type: 'call_tool', tool_name: name, arguments: input };
          const seen = await episode.step(action, abortSignal ?? AbortSignal.timeout(600_000));
          if (seen.reward !== null) trajectory.rewardCall(seen.reward);
          return resultOf(seen);
        },
        toModelOutput: ({ output }) => ({ type: 'text', value: output }),
      }),
    ]),
  );
}

/** What the model reads of a call: the texts of its result, else the result as JSON; or its error. */
function resultOf({ observation }: Observed): string {
  const { result, error } = toolResultSchema.parse(observation);
  if (error) return `Error (${error.error_type}): ${error.message}`;
  return textOf(result);
}

function textOf(result: unknown): string {
  if (typeof result === 'string') return result;
  if (typeof result === 'object' && result !== null) {
    if ('data' in result && result.data !== null && result.data !== undefined) return textOf(result.data);
    if ('content' in result && Array.isArray(result.content))
      return result.content
        .map((part: unknown) =>
          typeof part === 'object' && part !== null && 'text' in part
            ? String(part.text)
            : JSON.stringify(part),
        )
        .join('\n');
  }
  return JSON.stringify(result) ?? '';
}
