export type JsonSchema = Record<string, unknown>;

/** How JSON is formatted. */
export interface JsonStyle {
  /**
   * Regular expression for the text between JSON tokens. Default: no text, as the templates of the embedded models
   * write JSON.
   */
  whitespace?: string;
  /** Objects whose schema names properties and does not mention further ones have no further ones. Default true. */
  closed?: boolean;
}

export type Grammar =
  | { type: 'text' }
  | ({ type: 'json_object' } & JsonStyle)
  | ({ type: 'json_schema'; schema: JsonSchema } & JsonStyle)
  | { type: 'regex'; pattern: string }
  | { type: 'choice'; choices: string[] }
  | NamedJson
  | TextOrCalls
  /** GBNF: rules `name ::= ...`, one of them called `root`. */
  | { type: 'ebnf'; grammar: string }
  /** Free text in which certain tags, once begun, contain what their schema says. In the request's own form. */
  | { type: 'structural_tag'; tag: Record<string, unknown> };

/** Calls: one of the names with JSON of its schema, as `written`. */
export interface NamedJson {
  type: 'named_json';
  alternatives: { name: string; schema: JsonSchema }[];
  written: WrittenCalls;
}

/** Text or calls that the model begins by itself. */
export interface TextOrCalls {
  type: 'text_or_calls';
  /** Free text may come before calls. Text of another grammar takes the place of calls. */
  content: Grammar;
  calls: NamedJson;
  /** What begins a call, such as `<tool_call>`; empty: a reply that begins as a call is one. */
  tag: string;
  /** Tags around the reasoning that may come before free text; null if the model has none. No call begins in it. */
  reasoning: { open: string; close: string } | null;
}

/** What is written before the name of a call, between it and its JSON, and after that. */
export interface WrittenCalls {
  beforeName: string;
  beforeArguments: string;
  after: string;
  /** Between two calls; null if there is only one. */
  between: string | null;
  /** Whether the JSON may have a space after each comma and colon. */
  mayHaveSpaces: boolean;
  /** What is written before the first call and after the last. Absent if nothing is. */
  list?: { open: string; close: string };
  /** The same for calls in Python: arguments are then keyword arguments, with or without such spaces. */
  python?: { open: string; close: string };
  /** The notation of arguments, if it is neither JSON nor Python: see `CallForm`. */
  arguments?: 'parameters';
}

/**
 * What a reply may be: reasoning if there is any, then text of a grammar, then the end token. Plain data, so that it can be
 * hashed and sent between threads.
 */
export interface Constraint {
  reasoning?: LimitedReasoning;
  grammar: Grammar;
}

/** Reasoning that a reply begins with. */
export interface LimitedReasoning {
  /** What the reply begins with; empty if the prompt has written it. */
  before: string;
  close: string;
  after: string;
  /** Most tokens between, beyond which `close` is forced. */
  limit: number;
}

/** A reply of training data: text and special tokens, in order, without the end token. */
export interface Reply {
  parts: (string | number)[];
  constraint: Constraint | null;
  /** The token that ends it. Absent: the format's end token. */
  end?: number;
}
