import { isObject, type JsonObject } from '../../util/json.ts';

/** A span of an OTLP JSON file, with its attributes as plain values. */
export interface Span {
  trace: string;
  attributes: JsonObject;
  events: { name: string; attributes: JsonObject }[];
  /** Unix time in milliseconds; null if it has none. */
  timeMs: number | null;
}

const listOf = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);

/** Whether a value is an export of traces: `ExportTraceServiceRequest` of OTLP in JSON. */
export const isTraceExport = (value: unknown): value is { resourceSpans: unknown[] } =>
  isObject(value) && Array.isArray(value.resourceSpans);

export function* spansOf({ resourceSpans }: { resourceSpans: unknown[] }): Generator<Span, undefined> {
  for (const resource of resourceSpans)
    for (const scope of isObject(resource) ? listOf(resource.scopeSpans) : [])
      for (const span of isObject(scope) ? listOf(scope.spans) : []) if (isObject(span)) yield toSpan(span);
}

function toSpan({ traceId, attributes, events, startTimeUnixNano }: JsonObject): Span {
  const nanoseconds = Number(startTimeUnixNano);
  return {
    trace: String(traceId ?? ''),
    attributes: toAttributes(attributes),
    events: listOf(events).flatMap((event) =>
      isObject(event) ? [{ name: String(event.name), attributes: toAttributes(event.attributes) }] : [],
    ),
    timeMs: nanoseconds > 0 ? nanoseconds / 1e6 : null,
  };
}

function toAttributes(list: unknown): JsonObject {
  return Object.fromEntries(
    listOf(list).flatMap((entry) => (isObject(entry) ? [[String(entry.key), toValue(entry.value)]] : [])),
  );
}

/** An `AnyValue` of OTLP as a plain value. Integers are texts there. */
function toValue(value: unknown): unknown {
  if (!isObject(value)) return undefined;
  if (isObject(value.arrayValue)) return listOf(value.arrayValue.values).map(toValue);
  if (isObject(value.kvlistValue)) return toAttributes(value.kvlistValue.values);
  if (value.intValue !== undefined) return Number(value.intValue);
  return value.stringValue ?? value.boolValue ?? value.doubleValue ?? value.bytesValue;
}

/**
 * The attributes below a prefix as one value: `a.0.b` and `a.0.c` are the fields of the first member of a list, because
 * attributes cannot hold lists of objects. Undefined if there are none.
 */
export function nested(attributes: JsonObject, prefix: string): unknown {
  const root: JsonObject = {};
  for (const [name, value] of Object.entries(attributes)) {
    if (!name.startsWith(`${prefix}.`)) continue;
    const path = name.slice(prefix.length + 1).split('.');
    const last = path.pop() ?? '';
    let at = root;
    for (const key of path) {
      const next = Object.hasOwn(at, key) ? at[key] : undefined;
      const inner: JsonObject = isObject(next) ? next : {};
      Object.defineProperty(at, key, { value: inner, enumerable: true, configurable: true, writable: true });
      at = inner;
    }
    Object.defineProperty(at, last, { value, enumerable: true, configurable: true, writable: true });
  }
  return Object.keys(root).length > 0 ? withLists(root) : undefined;
}

/** Turns objects whose fields are numbers into lists, in the order of the numbers. */
function withLists(value: unknown): unknown {
  if (!isObject(value)) return value;
  const entries = Object.entries(value).map(([key, member]) => [key, withLists(member)] as const);
  if (!entries.every(([key]) => /^\d+$/.test(key))) return Object.fromEntries(entries);
  return entries.sort(([a], [b]) => Number(a) - Number(b)).map(([, member]) => member);
}
