export type JsonSchema = Record<string, unknown>;

/** How JSON is written. */
export interface JsonStyle {
  /** A regular expression of what may stand between the tokens of JSON. Absent: nothing, as the embedded models' templates write it. */
  whitespace?: string;
  /** Objects whose schema names properties and is silent on further ones have no further ones. Absent: the same as true. */
  closed?: boolean;
}

/** A language over text. */
export type Grammar =
  | { type: 'text' }
  | ({ type: 'json_object' } & JsonStyle)
  | ({ type: 'json_schema'; schema: JsonSchema } & JsonStyle)
  | { type: 'regex'; pattern: string }
  | { type: 'choice'; choices: string[] }
  /** One of the names, followed at once by JSON of its schema. */
  | { type: 'named_json'; alternatives: { name: string; schema: JsonSchema }[] }
  /** GBNF: rules `name ::= ...`, one of them called `root`. */
  | { type: 'ebnf'; grammar: string }
  /** Free text in which certain tags, once begun, hold what their schema says; as the request wrote it. */
  | { type: 'structural_tag'; tag: Record<string, unknown> };

/**
 * What a reply may be: its reasoning where there is to be some, one branch, then its end. A branch with `open` begins
 * with that special token. After a branch that repeats further ones that repeat may follow, and a `text` branch may be
 * left for one at any point. Plain data, so that a hash names it and it crosses threads.
 */
export interface Constraint {
  /** The reply begins with `open`, then any text of at most `limit` tokens, then `close`. */
  reasoning?: { open: number; close: number; limit: number };
  branches: { open: number | null; grammar: Grammar; repeat: boolean }[];
}

/** A reply of training data: text and special tokens, in order, without the end token. */
export interface Reply {
  parts: (string | number)[];
  constraint: Constraint | null;
}
