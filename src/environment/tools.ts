import { AsyncLocalStorage } from 'node:async_hooks';
import type { Telemetry, Tool, ToolSet } from 'ai';
import { genAi, observeEnd, spanName, timeTool, withSpan } from '../telemetry/index.ts';
import { currentTrajectory } from '../trajectory/index.ts';
import { describeThrown, describeWithLocation, readThrown } from './thrown.ts';

interface WatchedUse {
  toolCallId: string;
  hasSpan: boolean;
}

const running = new AsyncLocalStorage<WatchedUse>();
const maxLogLength = 1000;

/** The tool call of the current async scope, if `toolWatch` already times it; it may also have its span. */
function watchedUse(toolCallId: string): WatchedUse | undefined {
  const use = running.getStore();
  return use?.toolCallId === toolCallId ? use : undefined;
}

/**
 * Gives each tool call of the AI SDK in a rollout a span, and logs what the tool throws, with its location, in the
 * trajectory: the AI SDK tells such errors only to the model. It does not see calls whose `telemetry` option is set or
 * off.
 */
const toolWatch: Telemetry = {
  executeTool: async ({ execute, toolCallId, toolCall }) => {
    const trajectory = currentTrajectory();
    if (!trajectory || !toolCall) return execute();
    const { toolName } = toolCall;
    try {
      const ended = await runWatched(toolName, toolCallId, async () => execute());
      trajectory.observations.addToolResult(toolCallId, 'answered');
      return ended;
    } catch (error) {
      trajectory.observations.addToolResult(toolCallId, 'failed', describeThrown(error));
      const what = `The tool "${toolName}" threw: ${describeWithLocation(error)}`.slice(0, maxLogLength);
      if (!trajectory.isSealed && !trajectory.logs.includes(what)) trajectory.logs.push(what);
      throw error;
    }
  },
};

function runWatched<Result>(name: string, toolCallId: string, run: () => Promise<Result>): Promise<Result> {
  // Other telemetry registered with the AI SDK makes its own spans.
  const hasSpan = globalThis.AI_SDK_TELEMETRY_INTEGRATIONS?.every((one) => one === toolWatch) ?? true;
  const work = () => running.run({ toolCallId, hasSpan }, run);
  return timeTool(name, () => (hasSpan ? inToolSpan(name, toolCallId, work) : work()));
}

function inToolSpan<Result>(name: string, toolCallId: string, run: () => Result): Result {
  const attributes = {
    [genAi.operationName]: 'execute_tool',
    [genAi.toolName]: name,
    [genAi.toolCallId]: toolCallId,
  };
  return withSpan(spanName.tool(name), attributes, run);
}

/** Registers `toolWatch` with the AI SDK, once. Does what its `registerTelemetry` does, without loading the AI SDK. */
export function watchAiSdkTools(): void {
  globalThis.AI_SDK_TELEMETRY_INTEGRATIONS ??= [];
  const registered = globalThis.AI_SDK_TELEMETRY_INTEGRATIONS;
  if (!registered.includes(toolWatch)) registered.push(toolWatch);
}

/**
 * Runs each tool in a span `execute_tool <name>`, the parent of the spans inside the tool. In a rollout, tools
 * that the AI SDK runs have this span already; use `traceTools` for tools that something else runs, and for calls with
 * their own `telemetry`:
 *
 *     new ToolLoopAgent({ model: model.languageModel, tools: traceTools({ look, move }) });
 *
 * Tools without `execute` do not change.
 */
export function traceTools<Tools extends ToolSet>(tools: Tools): Tools {
  const traced = { ...tools };
  for (const [name, tool] of Object.entries<Tool>(tools)) {
    const { execute } = tool;
    if (execute) Object.assign(traced, { [name]: { ...tool, execute: traceExecution(name, execute, tool) } });
  }
  return traced;
}

type Execute = NonNullable<Tool['execute']>;

function traceExecution(name: string, execute: Execute, tool: Tool): Execute {
  return (input, options) => {
    const { toolCallId } = options;
    const trajectory = currentTrajectory();
    let stream: AsyncGenerator | undefined;
    const run = (): unknown => {
      const result: unknown = execute.call(tool, input, options);
      if (isAsyncIterable(result)) {
        const ended = Promise.withResolvers<void>();
        stream = runToEnd(result, ended, AsyncLocalStorage.snapshot());
        return ended.promise;
      }
      // Some thenables start their work on every `then`: call it only once, here.
      return isThenable(result) ? Promise.resolve(result) : result;
    };
    const use = watchedUse(toolCallId);
    const inSpan = () => (use?.hasSpan ? run() : inToolSpan(name, toolCallId, run));
    const result = observeEnd(
      () => (use ? inSpan() : timeTool(name, inSpan)),
      (failure, value) => {
        if (failure)
          trajectory?.observations.addToolResult(toolCallId, 'failed', describeThrown(failure.error));
        else if (hasFailed(value))
          trajectory?.observations.addToolResult(toolCallId, 'failed', textOfFailed(value));
        else trajectory?.observations.addToolResult(toolCallId, 'answered');
      },
    );
    return stream ?? result;
  };
}

/** Makes each piece in the span's scope. `ended` settles at the last piece, or when the consumer stops. */
async function* runToEnd<Piece>(
  pieces: AsyncIterable<Piece>,
  ended: PromiseWithResolvers<void>,
  inScope: <Result>(work: () => Result) => Result,
): AsyncGenerator<Piece, void, undefined> {
  const iterator = inScope(() => pieces[Symbol.asyncIterator]());
  let open = true;
  try {
    for (;;) {
      const next = await inScope(() => iterator.next());
      open = !next.done;
      if (next.done) return;
      yield next.value;
    }
  } catch (error) {
    open = false;
    ended.reject(error);
    throw error;
  } finally {
    if (open) await inScope(async () => iterator.return?.());
    ended.resolve();
  }
}

/** Tools of MCP servers report a failure in their result. */
function hasFailed(result: unknown): result is { isError: true } {
  return typeof result === 'object' && result !== null && 'isError' in result && result.isError === true;
}

/** The first text of a result of an MCP server. */
function textOfFailed(result: { isError: true }): string | undefined {
  const parts = 'content' in result && Array.isArray(result.content) ? result.content : [];
  return parts.map((part) => readThrown(part, 'text')).find((text) => typeof text === 'string');
}

function isAsyncIterable(value: unknown): value is AsyncIterable<unknown> {
  return typeof value === 'object' && value !== null && Symbol.asyncIterator in value;
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof value === 'object' && value !== null && 'then' in value && typeof value.then === 'function';
}
