import type { ToolSet } from 'ai';
import { z } from 'zod';
import type { Sandbox } from './sandbox/sandbox.ts';

interface BashToolOptions {
  sandbox: Sandbox;
  signal: AbortSignal;
  /** When the agent's time is over, as of `performance.now()`. */
  agentEnd: number;
  commandTimeoutMs: number;
  /** Characters of the result. */
  maxOutput: number;
}

/** The tool `bash`: what a command writes, and its exit code unless that is 0. */
export async function bashTool(options: BashToolOptions): Promise<ToolSet> {
  const { sandbox, signal, agentEnd, commandTimeoutMs, maxOutput } = options;
  const { tool } = await import('ai');
  return {
    bash: tool({
      description: 'Runs a command with bash in the working directory. Each call is a shell of its own.',
      inputSchema: z.object({ command: z.string() }),
      execute: async ({ command }) => {
        const timeoutMs = Math.max(1, Math.min(commandTimeoutMs, agentEnd - performance.now()));
        const result = await sandbox.exec(command, { timeoutMs, signal, maxBytes: 4 * maxOutput });
        const end =
          result.exitCode === null
            ? `[killed after ${Math.round(timeoutMs / 1000)} s]`
            : result.exitCode === 0
              ? ''
              : `[exit code ${result.exitCode}]`;
        const text = [result.stdout, result.stderr].map(String).join('');
        const isCut = result.isCut || text.length > maxOutput;
        return [text.slice(0, maxOutput), isCut ? '[the rest is cut]' : '', end]
          .filter((part) => part !== '')
          .join('\n');
      },
    }),
  };
}
