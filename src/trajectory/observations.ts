import { printable } from '../contract/index.ts';

/** Outcomes of the calls to one tool. */
export interface ToolUses {
  /** Calls with a result, including errors. */
  uses: number;
  /** Calls where the tool threw, or reported a failure over MCP. */
  errors: number;
  /** Calls that were not run: the tool does not exist, or the input does not match its schema. */
  invalid: number;
  /** What the tool said at its first error, at most 200 characters. Absent without an error, and if it said nothing. */
  error?: string;
}

/** Observations as plain JSON. Zero and empty fields are absent. */
export interface ObservationsRecord {
  greedy_calls?: number;
  agent_seeds?: number;
  unfinished_calls?: number;
  context_overflows?: number;
  rewritten_histories?: number;
  tools?: Record<string, ToolUses>;
  other_models?: Record<string, number>;
}

/** `invalid`: the input does not match the tool's schema. `unknown`: the tool does not exist. */
type ToolResult = 'answered' | 'failed' | 'invalid' | 'unknown';

const maxErrorLength = 200;

/** Adds the uses of a tool. The first error stays. */
export function addUses(before: ToolUses | undefined, { uses, errors, invalid, error }: ToolUses): ToolUses {
  const first = before?.error ?? error;
  return {
    uses: (before?.uses ?? 0) + uses,
    errors: (before?.errors ?? 0) + errors,
    invalid: (before?.invalid ?? 0) + invalid,
    ...(first === undefined ? {} : { error: first }),
  };
}

/** All nonexistent tools are counted under this name. */
const unknownTool = '(unknown)';

/** Maximum number of addresses of other models that one rollout counts. */
const maxOtherModels = 20;

/** Facts about a rollout other than its calls and rewards. Reports and alarms of a step use them. */
export class Observations {
  /** Answered calls that sampled greedily: temperature 0, or top_k 1. */
  greedyCalls: number;
  /** Answered calls whose seed was set by the agent, not by the rollout. */
  agentSeeds: number;
  /** Calls in flight when the agent returned, and calls made after that. */
  unfinishedCalls: number;
  /** Calls whose prompt or reply did not fit in the model's context. */
  contextOverflows: number;
  /** Histories that began because the chat template rewrote the conversation that they continue. */
  rewrittenHistories: number;
  /** Indexes of the calls whose prompts were longer than the context. */
  readonly refusedCalls: number[];
  /* Made when they are needed: most of ten thousands of open rollouts need none of these. */
  #otherModels: Map<string, number> | undefined;
  /** By tool call id, because several observers may see the same result. `result` is undefined until it is seen. */
  #results: Map<string, { tool: string; result: ToolResult | undefined; error?: string }> | undefined;
  readonly #restoredTools: Record<string, ToolUses>;
  readonly #inFlight = new Set<number>();
  /** Calls that got no answer and were not repeated: what each asked, and why it failed. */
  readonly #unanswered: { asked: string | undefined; error: unknown }[] = [];
  #newestEnd: CallEnd | undefined;
  #hasAgentReturned = false;
  #isSealed = false;

  constructor(record: ObservationsRecord = {}, refusedCalls: readonly number[] = []) {
    this.greedyCalls = record.greedy_calls ?? 0;
    this.agentSeeds = record.agent_seeds ?? 0;
    this.unfinishedCalls = record.unfinished_calls ?? 0;
    this.contextOverflows = record.context_overflows ?? 0;
    this.rewrittenHistories = record.rewritten_histories ?? 0;
    if (record.other_models) this.#otherModels = new Map(Object.entries(record.other_models));
    this.#restoredTools = record.tools ?? {};
    this.refusedCalls = [...refusedCalls];
  }

  /**
   * A call begins. If an earlier one with the same messages got no answer, this is its repetition, and only its own end
   * counts. Clients may change other fields of a request when they repeat it. @param messages The call's messages.
   */
  beginCall(messages: unknown): void {
    if (this.#unanswered.length === 0) return;
    const asked = JSON.stringify(messages);
    const repeated = this.#unanswered.findIndex((call) => call.asked === undefined || call.asked === asked);
    if (repeated >= 0) this.#unanswered.splice(repeated, 1);
  }

  /**
   * Notes a call that failed for a reason other than the length of its prompt: the policy did not cause it.
   * @param messages The call's messages; undefined if they could not be read, so that any later call may repeat it.
   */
  addUnanswered(error: unknown, messages?: unknown): void {
    this.#newestEnd = undefined;
    this.#unanswered.push({ asked: messages === undefined ? undefined : JSON.stringify(messages), error });
  }

  /** Why calls got no answer that were not repeated with success. */
  get unansweredCalls(): readonly unknown[] {
    return this.#unanswered.map(({ error }) => error);
  }

  /** Starts tracking a call, which the agent may forget to await. `index` is its index in the trajectory. */
  trackCall(index: number): void {
    this.#inFlight.add(index);
  }

  /** The call was answered or failed. Repeated calls are harmless. */
  untrackCall(index: number): void {
    this.#inFlight.delete(index);
  }

  /** Notes how a call ended. `index` is undefined for a call that is not recorded. */
  addCallEnd(end: CallEnd, index: number | undefined): void {
    this.#newestEnd = end;
    if (index === undefined) return;
    if (end === 'refused_by_context') this.refusedCalls.push(index);
    if (this.isAtContextEnd) this.contextOverflows++;
  }

  /** Whether the last call to end had filled the context. */
  get isAtContextEnd(): boolean {
    return this.#newestEnd === 'cut_by_context' || this.#newestEnd === 'refused_by_context';
  }

  /** The agent returned, so it does not await the calls still in flight. */
  endAgent(): void {
    this.#hasAgentReturned = true;
    this.unfinishedCalls += this.#inFlight.size;
  }

  /** Counts a call made after the rollout's end, if the agent had returned without awaiting it. */
  addLateCall(): void {
    if (this.#hasAgentReturned && !this.#isSealed) this.unfinishedCalls++;
  }

  /** The trajectory was submitted: later observations are ignored. */
  seal(): void {
    this.#isSealed = true;
  }

  /** Registers a sampled tool call, so that its result is counted when it is observed. */
  expectTool(id: string, tool: string): void {
    this.#results ??= new Map();
    if (!this.#results.has(id)) this.#results.set(id, { tool, result: undefined });
  }

  /**
   * Sets the result of a tool call, and what the tool said if it failed. Ignores calls that the policy did not sample. An
   * error is never overwritten.
   */
  addToolResult(id: string, result: ToolResult, error?: string): void {
    const call = this.#isSealed ? undefined : this.#results?.get(id);
    if (!call || (call.result !== undefined && call.result !== 'answered')) return;
    call.result = result;
    const said = error === undefined ? '' : printable(error).trim();
    if (said !== '')
      call.error = said.length > maxErrorLength ? `${said.slice(0, maxErrorLength - 1)}…` : said;
  }

  /** By tool name. */
  get tools(): Record<string, ToolUses> {
    const tools = new Map(Object.entries(this.#restoredTools).map(([name, uses]) => [name, { ...uses }]));
    for (const { tool, result, error } of this.#results?.values() ?? []) {
      if (result === undefined) continue;
      const name = result === 'unknown' ? unknownTool : tool;
      const isInvalid = result === 'invalid' || result === 'unknown';
      const use = { uses: 1, errors: Number(result === 'failed'), invalid: Number(isInvalid) };
      tools.set(name, addUses(tools.get(name), error === undefined ? use : { ...use, error }));
    }
    return Object.fromEntries(tools);
  }

  /** Counts a request to the API of a model that is not the rollout's. */
  addOtherModel(hostAndPath: string): void {
    if (this.#isSealed) return;
    this.#otherModels ??= new Map();
    const count = this.#otherModels.get(hostAndPath);
    if (count === undefined && this.#otherModels.size >= maxOtherModels) return;
    this.#otherModels.set(hostAndPath, (count ?? 0) + 1);
  }

  /** Requests to the APIs of other models, by host and path. */
  get otherModels(): Record<string, number> {
    return Object.fromEntries(this.#otherModels ?? []);
  }

  /** Undefined if there is nothing to record. */
  toRecord(): ObservationsRecord | undefined {
    const { greedyCalls, agentSeeds, unfinishedCalls, contextOverflows, rewrittenHistories } = this;
    const { tools, otherModels } = this;
    const record: ObservationsRecord = {
      ...(greedyCalls > 0 ? { greedy_calls: greedyCalls } : {}),
      ...(agentSeeds > 0 ? { agent_seeds: agentSeeds } : {}),
      ...(unfinishedCalls > 0 ? { unfinished_calls: unfinishedCalls } : {}),
      ...(contextOverflows > 0 ? { context_overflows: contextOverflows } : {}),
      ...(rewrittenHistories > 0 ? { rewritten_histories: rewrittenHistories } : {}),
      ...(Object.keys(tools).length > 0 ? { tools } : {}),
      ...(Object.keys(otherModels).length > 0 ? { other_models: otherModels } : {}),
    };
    return Object.keys(record).length > 0 ? record : undefined;
  }
}

/**
 * How a model call of a rollout ended, if the service answered or refused it for the length of its prompt.
 *
 * - `answered`: the reply ended by itself or at the request's token limit.
 * - `cut_by_context`: the reply was cut because the model's context was full.
 * - `refused_by_context`: the prompt was longer than the model's context.
 */
export type CallEnd = 'answered' | 'cut_by_context' | 'refused_by_context';
