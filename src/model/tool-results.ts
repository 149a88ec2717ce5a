import type { LanguageModelV4CallOptions, LanguageModelV4ToolResultOutput } from '@ai-sdk/provider';
import type { Observations } from '../trajectory/index.ts';

/**
 * Counts the tool results of a prompt. The AI SDK marks those of tools that threw and of calls that it did not run; a
 * tool that says in its text that it failed is not marked, and counts as answered.
 */
export function observeToolResults(
  { prompt, tools = [] }: Pick<LanguageModelV4CallOptions, 'prompt' | 'tools'>,
  observations: Observations,
): void {
  const known = new Set(tools.map(({ name }) => name));
  for (const { role, content } of prompt) {
    if (role !== 'tool') continue;
    for (const part of content) {
      if (part.type !== 'tool-result') continue;
      const { toolCallId, toolName, output } = part;
      if (!isError(output)) observations.addToolResult(toolCallId, 'answered');
      else if (!known.has(toolName)) observations.addToolResult(toolCallId, 'unknown');
      else observations.addToolResult(toolCallId, isInvalidInput(output, toolName) ? 'invalid' : 'failed');
    }
  }
}

const isError = ({ type }: LanguageModelV4ToolResultOutput): boolean =>
  type === 'error-text' || type === 'error-json';

/** As the AI SDK's InvalidToolInputError is written, with its name or without: the tool was not run. */
const isInvalidInput = (output: LanguageModelV4ToolResultOutput, tool: string): boolean =>
  output.type === 'error-text' &&
  output.value.replace(/^AI_InvalidToolInputError: /, '').startsWith(`Invalid input for tool ${tool}:`);
