import { AsyncLocalStorage } from 'node:async_hooks';
import { registerTelemetry, type Telemetry } from 'ai';
import { genAi, spanName, timeTool, withSpan } from '../../telemetry/index.ts';
import { currentTrajectory } from '../../trajectory/index.ts';
import { describeWithPlace } from '../thrown-place.ts';

interface WatchedUse {
  toolCallId: string;
  hasSpan: boolean;
}

const running = new AsyncLocalStorage<WatchedUse>();
const longestLog = 1000;

/** The use of a tool that is watched here and now: it is timed, and may have its span. */
export function watchedUse(toolCallId: string): WatchedUse | undefined {
  const use = running.getStore();
  return use?.toolCallId === toolCallId ? use : undefined;
}

/**
 * Within a rollout each tool that the AI SDK runs has a span, and what it throws stands in the trajectory's logs with
 * its place: the AI SDK itself tells it to nobody but the model. A call with telemetry of its own, or with it off, is
 * left alone by the AI SDK.
 */
const toolWatch: Telemetry = {
  executeTool: async ({ execute, toolCallId, toolCall }) => {
    const trajectory = currentTrajectory();
    if (!trajectory || !toolCall) return execute();
    const { toolName } = toolCall;
    try {
      const ended = await watched(toolName, toolCallId, async () => execute());
      trajectory.observations.addToolResult(toolCallId, 'answered');
      return ended;
    } catch (error) {
      trajectory.observations.addToolResult(toolCallId, 'failed');
      const what = `The tool "${toolName}" threw: ${describeWithPlace(error)}`.slice(0, longestLog);
      if (!trajectory.isSealed && !trajectory.logs.includes(what)) trajectory.logs.push(what);
      throw error;
    }
  },
};

function watched<Result>(name: string, toolCallId: string, run: () => Promise<Result>): Promise<Result> {
  // Whoever has registered telemetry with the AI SDK has its spans.
  const hasSpan = globalThis.AI_SDK_TELEMETRY_INTEGRATIONS?.every((one) => one === toolWatch) ?? true;
  const work = () => running.run({ toolCallId, hasSpan }, run);
  const attributes = {
    [genAi.operationName]: 'execute_tool',
    [genAi.toolName]: name,
    [genAi.toolCallId]: toolCallId,
  };
  return timeTool(name, () => (hasSpan ? withSpan(spanName.tool(name), attributes, work) : work()));
}

/** Has the AI SDK tell of its tools; harmless when repeated. */
export function watchAiSdkTools(): void {
  if (!globalThis.AI_SDK_TELEMETRY_INTEGRATIONS?.includes(toolWatch)) registerTelemetry(toolWatch);
}
