import { scenarioKey } from '../../environment/index.ts';
import { canonicalJson, isObject, type JsonObject, sha256 } from '../../util/json.ts';
import { callOfLine } from './chat-log.ts';
import { type RecordedCall, type RecordedScenario, Unreadable } from './recorded-scenario.ts';
import { callOfSpan, conversationOf } from './span-call.ts';
import { isTraceExport, spansOf } from './spans.ts';

/** Why something could not be read, and how often. `first`: the file, with the line, of the first one. */
export interface UnreadReason {
  reason: string;
  count: number;
  first: string;
}

/** A scenario before `map`, with what orders it. `recorded`: the scenario itself, unless it is of a run. */
interface Found {
  scenario: unknown;
  recorded: RecordedScenario | null;
  conversation: string | null;
  trace: string | null;
  timeMs: number | null;
}

/** The key of a recorded scenario. */
export const openingKey = ({ messages, tools }: { messages?: unknown; tools?: unknown }): string =>
  sha256(canonicalJson({ messages, tools: tools ?? null })).slice(0, 20);

/** What all files hold, each different opening once. */
export class CollectedScenarios {
  read = 0;
  readonly #found = new Map<string, Found>();
  readonly #unread = new Map<string, { count: number; first: string }>();
  /** The conversation of a trace, which a span may name that is no model call. */
  readonly #conversations = new Map<string, string>();

  get different(): number {
    return this.#found.size;
  }

  add(value: unknown, where: string): void {
    if (isTraceExport(value)) {
      for (const span of spansOf(value)) {
        const conversation = conversationOf(span.attributes);
        if (conversation !== null) this.#conversations.set(span.trace, conversation);
        this.#count(where, () => this.#addCall(callOfSpan(span)));
      }
      return;
    }
    this.#count(where, () => {
      if (value === undefined) throw new Unreadable('no JSON');
      if (!isObject(value)) throw new Unreadable('neither a trace, a chat nor a group of a run');
      if (Array.isArray(value.rollouts) && 'scenario' in value) return this.#addScenario(value);
      // The first line of a file that `recordCalls` wrote.
      if (value.format === 'martingale.calls') return;
      if (Array.isArray(value.resourceLogs) || Array.isArray(value.resourceMetrics))
        throw new Unreadable('logs or metrics of OpenTelemetry: only traces are read');
      const call = callOfLine(value);
      if (!call) throw new Unreadable('neither a trace, a chat nor a group of a run');
      this.#addCall(call);
    });
  }

  unread(): UnreadReason[] {
    return [...this.#unread]
      .map(([reason, counted]) => ({ reason, ...counted }))
      .sort((a, b) => b.count - a.count);
  }

  /** By time; those without one come first, as they were found. */
  inOrder(): (Found & { group: string | null })[] {
    const found = [...this.#found.values()].sort((a, b) => (a.timeMs ?? 0) - (b.timeMs ?? 0));
    return found.map((one) => {
      const { recorded, conversation, trace } = one;
      const group = conversation ?? (trace === null ? null : (this.#conversations.get(trace) ?? trace));
      return { ...one, group, scenario: recorded && group !== null ? { ...recorded, group } : one.scenario };
    });
  }

  #count(where: string, read: () => void): void {
    try {
      read();
    } catch (error) {
      if (!(error instanceof Unreadable)) throw error;
      const { count, first } = this.#unread.get(error.message) ?? { count: 0, first: where };
      this.#unread.set(error.message, { count: count + 1, first });
    }
  }

  #addScenario({ scenario, scenario_lost: lost }: JsonObject): void {
    if (lost !== undefined) throw new Unreadable('a scenario of a run that JSON cannot hold');
    this.read++;
    const key = scenarioKey(scenario);
    if (!this.#found.has(key))
      this.#found.set(key, {
        scenario,
        recorded: null,
        conversation: null,
        trace: null,
        timeMs: null,
      });
  }

  #addCall(call: RecordedCall | null): void {
    if (!call) return;
    const scenario = toScenario(call);
    this.read++;
    const { conversation, trace, timeMs } = call;
    const before = this.#found.get(scenario.id);
    const isOlder = before !== undefined && (before.timeMs ?? 0) <= (timeMs ?? 0);
    const kept = isOlder ? before : { scenario, recorded: scenario, conversation, trace, timeMs };
    // The older call may have failed.
    const reply = [before?.recorded?.reply, scenario.reply].find((one) => one !== undefined);
    if (kept.recorded && reply) kept.recorded.reply ??= reply;
    this.#found.set(scenario.id, kept);
  }
}

function toScenario({ messages, reply, tools, model, timeMs }: RecordedCall): RecordedScenario {
  return {
    id: openingKey({ messages, tools }),
    messages,
    ...(tools ? { tools } : {}),
    ...(reply ? { reply } : {}),
    ...(model === null ? {} : { model }),
    ...(isTime(timeMs) ? { time: new Date(timeMs).toISOString() } : {}),
  };
}

/** Whether a date can hold it: clocks and units of others may be wrong. */
const isTime = (timeMs: number | null): timeMs is number =>
  timeMs !== null && !Number.isNaN(new Date(timeMs).getTime());
