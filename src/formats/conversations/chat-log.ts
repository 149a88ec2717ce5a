import { isObject, type JsonObject } from '../../util/json.ts';
import { toOpening, toReply, toTools } from './messages.ts';
import { type RecordedCall, Unreadable } from './recorded-scenario.ts';

/** Fields that hold the request, or the answer, beside each other in a line. */
const requestFields = ['request', 'body', 'input'];
const answerFields = ['response', 'completion', 'output'];
const timeFields = ['created', 'created_at', 'timestamp', 'time'];
const conversationFields = ['conversation_id', 'session_id', 'thread_id'];

/**
 * The call in a line of a log of chat completions: a request and its answer side by side (also as the Batch API or
 * `recordCalls` writes them), or a conversation under `messages`, as for supervised training. Null for a line that is
 * none.
 * @throws Unreadable
 */
export function callOfLine(line: JsonObject): RecordedCall | null {
  const request = [line, ...requestFields.map((name) => line[name])]
    .flatMap((value) => (isObject(value) ? [value, value.body] : []))
    .find((value) => isObject(value) && Array.isArray(value.messages));
  const answer = answerFields
    .map((name) => line[name])
    .flatMap((value) => (isObject(value) ? [isObject(value.body) ? value.body : value] : []))
    .find((value) => Array.isArray(value.choices));
  if (!isObject(request)) {
    if (answer) throw new Unreadable('an answer without its request');
    const isResponses = [line, line.request, line.body].some(
      (value) => isObject(value) && 'input' in value && 'model' in value,
    );
    if (isResponses) throw new Unreadable('a call of the Responses API');
    return null;
  }
  const [choice] = answer && Array.isArray(answer.choices) ? answer.choices : [];
  const model = [request.model, answer?.model].find((name) => typeof name === 'string');
  const { messages, reply, isWhole } = toOpening(request.messages);
  return {
    messages,
    reply: isWhole && isObject(choice) ? toReply(choice.message) : reply,
    tools: toTools(request.tools),
    model: typeof model === 'string' ? model : null,
    conversation: conversationOf(line, request),
    trace: null,
    timeMs: timeOf(line) ?? (answer ? timeOf(answer) : null),
  };
}

function conversationOf(line: JsonObject, request: JsonObject): string | null {
  const holders = [line, line.metadata, request.metadata].filter(isObject);
  const found = holders
    .flatMap((holder) => conversationFields.map((name) => holder[name]))
    .find((value) => typeof value === 'string' && value !== '');
  return typeof found === 'string' ? found : null;
}

/** Unix time in seconds, milliseconds, microseconds or nanoseconds, told apart by its size; or a date in a text. */
function timeOf(holder: JsonObject): number | null {
  for (const name of timeFields) {
    const value = holder[name];
    if (typeof value === 'number' && value > 0) {
      const unit = [1e-3, 1, 1e3].find((perMs) => value / perMs < 1e14) ?? 1e6;
      return value / unit;
    }
    const ms = typeof value === 'string' ? Date.parse(value) : Number.NaN;
    if (!Number.isNaN(ms)) return ms;
  }
  return null;
}
