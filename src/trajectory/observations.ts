/** What came of the calls of one tool. */
export interface ToolUses {
  /** Calls with a result, errors included. */
  uses: number;
  /** Calls in which the tool threw or, over MCP, said that it failed. */
  errors: number;
  /** Calls that were not run: no such tool, or an input that does not fit its schema. */
  invalid: number;
}

/** What was seen of a rollout beside its calls, as plain JSON. What is zero or empty is left out. */
export interface ObservationsRecord {
  greedy_calls?: number;
  agent_seeds?: number;
  unfinished_calls?: number;
  context_overflows?: number;
  tools?: Record<string, ToolUses>;
  other_models?: Record<string, number>;
}

/** `invalid`: the input does not fit. `unknown`: there is no such tool. */
export type ToolResult = 'answered' | 'failed' | 'invalid' | 'unknown';

/** What tools that a policy makes up are counted as. */
export const unknownTool = '(unknown)';

/** The most kinds of requests to other models that one rollout counts. */
const mostOtherModels = 20;

/** What was seen of a rollout beside its calls and rewards: the figures and alarms of a step are made of it. */
export class Observations {
  /** Answered calls that took the likeliest token each time: temperature 0, or top_k 1. */
  greedyCalls: number;
  /** Answered calls whose seed came from the agent, not from the rollout. */
  agentSeeds: number;
  /** Calls that were in flight when the agent returned, or that it made later. */
  unfinishedCalls: number;
  /** Calls for which the model's context had no room: for their prompt, or for the rest of their reply. */
  contextOverflows: number;
  readonly #otherModels: Map<string, number>;
  /** By the id of the tool call: several observers may see one result. Undefined until there is one. */
  readonly #results = new Map<string, { tool: string; result: ToolResult | undefined }>();
  readonly #restoredTools: Record<string, ToolUses>;
  readonly #inFlight = new Set<number>();
  #hasAgentReturned = false;
  #isSealed = false;

  constructor(record: ObservationsRecord = {}) {
    this.greedyCalls = record.greedy_calls ?? 0;
    this.agentSeeds = record.agent_seeds ?? 0;
    this.unfinishedCalls = record.unfinished_calls ?? 0;
    this.contextOverflows = record.context_overflows ?? 0;
    this.#otherModels = new Map(Object.entries(record.other_models ?? {}));
    this.#restoredTools = record.tools ?? {};
  }

  /** A call that an agent may forget to wait for; `index` is its place among the trajectory's calls. */
  beginCall(index: number): void {
    this.#inFlight.add(index);
  }

  /** It was answered, or failed. Harmless when repeated. */
  endCall(index: number): void {
    this.#inFlight.delete(index);
  }

  /** The agent returned by itself: it waits for nothing any more. */
  endAgent(): void {
    this.#hasAgentReturned = true;
    this.unfinishedCalls += this.#inFlight.size;
  }

  /** A call that came after the rollout's end. It is one that the agent did not wait for, where that had returned. */
  addLateCall(): void {
    if (this.#hasAgentReturned && !this.#isSealed) this.unfinishedCalls++;
  }

  /** The trajectory is handed over: nothing is added any more. */
  seal(): void {
    this.#isSealed = true;
  }

  /** A tool call was sampled: its result is counted, where anybody sees it. */
  expectTool(id: string, tool: string): void {
    if (!this.#results.has(id)) this.#results.set(id, { tool, result: undefined });
  }

  /** The result of a tool call. Ignored for calls that the policy did not sample; an error stays one. */
  addToolResult(id: string, result: ToolResult): void {
    const call = this.#isSealed ? undefined : this.#results.get(id);
    if (call && (call.result === undefined || call.result === 'answered')) call.result = result;
  }

  /** By the tool's name. */
  get tools(): Record<string, ToolUses> {
    const tools = new Map(Object.entries(this.#restoredTools).map(([name, uses]) => [name, { ...uses }]));
    for (const { tool, result } of this.#results.values()) {
      if (result === undefined) continue;
      const name = result === 'unknown' ? unknownTool : tool;
      const counts = tools.get(name) ?? { uses: 0, errors: 0, invalid: 0 };
      tools.set(name, counts);
      counts.uses++;
      if (result === 'failed') counts.errors++;
      if (result === 'invalid' || result === 'unknown') counts.invalid++;
    }
    return Object.fromEntries(tools);
  }

  /** A request to the API of a model that is not the rollout's. */
  addOtherModel(hostAndPath: string): void {
    if (this.#isSealed) return;
    const count = this.#otherModels.get(hostAndPath);
    if (count === undefined && this.#otherModels.size >= mostOtherModels) return;
    this.#otherModels.set(hostAndPath, (count ?? 0) + 1);
  }

  /** Requests to the APIs of other models, by host and path. */
  get otherModels(): Record<string, number> {
    return Object.fromEntries(this.#otherModels);
  }

  /** Undefined where there is nothing to write. */
  toRecord(): ObservationsRecord | undefined {
    const { greedyCalls, agentSeeds, unfinishedCalls, contextOverflows, tools, otherModels } = this;
    const record: ObservationsRecord = {
      ...(greedyCalls > 0 ? { greedy_calls: greedyCalls } : {}),
      ...(agentSeeds > 0 ? { agent_seeds: agentSeeds } : {}),
      ...(unfinishedCalls > 0 ? { unfinished_calls: unfinishedCalls } : {}),
      ...(contextOverflows > 0 ? { context_overflows: contextOverflows } : {}),
      ...(Object.keys(tools).length > 0 ? { tools } : {}),
      ...(Object.keys(otherModels).length > 0 ? { other_models: otherModels } : {}),
    };
    return Object.keys(record).length > 0 ? record : undefined;
  }
}
