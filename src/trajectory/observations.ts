/** The outcomes of the calls of one tool. */
export interface ToolUses {
  /** Calls with a result, errors included. */
  uses: number;
  /** Calls in which the tool threw or reported, over MCP, that it failed. */
  errors: number;
  /** Calls that were not run: no such tool, or an input that does not fit its schema. */
  invalid: number;
}

/** Observations as plain JSON. Fields that are zero or empty are left out. */
export interface ObservationsRecord {
  greedy_calls?: number;
  agent_seeds?: number;
  unfinished_calls?: number;
  context_overflows?: number;
  tools?: Record<string, ToolUses>;
  other_models?: Record<string, number>;
}

/** `invalid`: the input does not match the tool's schema. `unknown`: there is no such tool. */
export type ToolResult = 'answered' | 'failed' | 'invalid' | 'unknown';

/** The name under which tools that do not exist are counted. */
const unknownTool = '(unknown)';

/** The most addresses of other models that one rollout counts. */
const mostOtherModels = 20;

/** What the harness observes of a rollout beside its calls and rewards. Reports and alarms of a step use it. */
export class Observations {
  /** Answered calls that sampled greedily: temperature 0, or top_k 1. */
  greedyCalls: number;
  /** Answered calls whose seed came from the agent, not from the rollout. */
  agentSeeds: number;
  /** Calls that were in flight when the agent returned, or that it made later. */
  unfinishedCalls: number;
  /** Calls whose prompt or reply did not fit into the model's context. */
  contextOverflows: number;
  readonly #otherModels: Map<string, number>;
  /** By the id of the tool call: several observers may see one result. `result` is undefined until one does. */
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

  /** A call begins that the agent may forget to await. `index` is the call's index in the trajectory. */
  beginCall(index: number): void {
    this.#inFlight.add(index);
  }

  /** The call was answered or failed. May be called repeatedly. */
  endCall(index: number): void {
    this.#inFlight.delete(index);
  }

  /** The agent returned by itself: it awaits no further calls. */
  endAgent(): void {
    this.#hasAgentReturned = true;
    this.unfinishedCalls += this.#inFlight.size;
  }

  /** A call came after the rollout's end. If the agent had returned, it did not await the call. */
  addLateCall(): void {
    if (this.#hasAgentReturned && !this.#isSealed) this.unfinishedCalls++;
  }

  /** The trajectory has been submitted: nothing is added from here on. */
  seal(): void {
    this.#isSealed = true;
  }

  /** A tool call was sampled: its result counts, if one is observed. */
  expectTool(id: string, tool: string): void {
    if (!this.#results.has(id)) this.#results.set(id, { tool, result: undefined });
  }

  /** The result of a tool call. Results of calls that the policy did not sample are ignored; an error stays an error. */
  addToolResult(id: string, result: ToolResult): void {
    const call = this.#isSealed ? undefined : this.#results.get(id);
    if (call && (call.result === undefined || call.result === 'answered')) call.result = result;
  }

  /** By name of the tool. */
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

  /** Undefined if all fields would be left out. */
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

/**
 * How a model call of a rollout ended.
 *
 * - `answered`: its reply ended by itself or at the limit of the request.
 * - `cut_by_context`: its reply was cut because the model's context is full.
 * - `refused_by_context`: its prompt is longer than the model's context.
 * - `unanswered`: anything else: the service failed or is away, a deadline passed, the call was aborted.
 */
export type CallEnd = 'answered' | 'cut_by_context' | 'refused_by_context' | 'unanswered';

/** How the calls of a rollout ended: tells what the policy caused from what went wrong around it. */
export class CallEnds {
  readonly #refused: number[];
  #hasUnanswered = false;
  #newest: CallEnd | undefined;

  constructor(refused: readonly number[] = []) {
    this.#refused = [...refused];
  }

  /** `index` is undefined for a call that is not recorded. */
  note(end: CallEnd, index: number | undefined): void {
    if (end === 'unanswered') this.#hasUnanswered = true;
    if (end === 'refused_by_context' && index !== undefined) this.#refused.push(index);
    this.#newest = end;
  }

  /** Whether a call was not answered for a reason other than the length of its prompt. */
  get hasUnanswered(): boolean {
    return this.#hasUnanswered;
  }

  /** Whether the call that ended last reached the end of the context. */
  get isAtContextEnd(): boolean {
    return this.#newest === 'cut_by_context' || this.#newest === 'refused_by_context';
  }

  /** Indexes of the calls whose prompts were longer than the context. */
  get refused(): readonly number[] {
    return this.#refused;
  }
}
