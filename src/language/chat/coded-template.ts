import { messageOf } from '../../util/error.ts';
import { exactText } from '../../util/exact-json.ts';
import { getOrInsert } from '../../util/get-or-insert.ts';
import { escapeForPattern } from '../../util/pattern.ts';
import { LanguageError } from '../error.ts';
import { BudgetError } from '../jinja/budget.ts';
import { isNode, type Node } from '../jinja/nodes.ts';
import { Template } from '../jinja/template.ts';

/** A piece of a rendered prompt: an added token that the template wrote, or text of any origin. */
export type CodedPart = { type: 'special'; token: number } | { type: 'text'; text: string };

/** A rendered conversation with slots for the caller's texts and for sampled ids. */
export type PromptPart = CodedPart | { type: 'slot'; index: number };

/**
 * Content of a slot: text, or token ids that enter the prompt unchanged. `hasEnd`: the template writes no end after them.
 */
export type Slot =
  | { type: 'text'; text: string }
  | { type: 'tokens'; tokens: readonly number[]; hasEnd?: boolean };

/**
 * A template that may inspect and change the texts of a conversation (trim them, split them at `</think>`, look how they
 * begin). It therefore gets the texts themselves. To know which added tokens it wrote itself and which only stand in a
 * text, it is rendered twice: as it is, and with each added token in what it writes replaced by a code that no text
 * contains. The second rendering, with the codes read back, must be the first.
 */
export class CodedTemplate {
  readonly #plain: Template;
  readonly #source: string;
  readonly #added: ReadonlyMap<string, number>;
  /** Added tokens in the source or in a variable, longest first. A code is an index into it. */
  readonly #texts: readonly string[];
  readonly #pattern: RegExp;
  /** By the first half of its codes. */
  readonly #coded = new Map<string, Template>();

  constructor(source: string, added: ReadonlyMap<string, number>, variables: readonly string[]) {
    this.#plain = new Template(source);
    this.#source = source;
    this.#added = added;
    this.#texts = [...added.keys()]
      .filter((text) => source.includes(text) || variables.includes(text))
      .sort((a, b) => b.length - a.length);
    // Without an added token the pattern matches nothing.
    this.#pattern = new RegExp(this.#texts.map(escapeForPattern).join('|') || '(?!)', 'g');
    if (this.#texts.length > maxTokens)
      throw new LanguageError(
        'checkpoint_unsupported',
        `The chat template mentions ${this.#texts.length} added tokens. The maximum is ${maxTokens}.`,
      );
  }

  /** `variables` are texts of the model, such as `eos_token`; `values` come from the caller. */
  render(variables: Readonly<Record<string, string>>, values: Record<string, unknown>): CodedPart[] {
    const half = unusedHalf(this.#source + exactText(values));
    const write = (template: Template, own: Readonly<Record<string, string>>) =>
      renderTemplate(template, { ...own, ...values });
    const plain = write(this.#plain, variables);
    const codes = Object.fromEntries(
      Object.entries(variables).map(([name, text]) => [name, this.#encode(text, half)]),
    );
    const parts = write(this.#template(half), codes).split(new RegExp(`${half}([\\udc00-\\udfff])`));
    // After the split, every second part is the second half of a code.
    const textOf = (part: string) => this.#texts[part.charCodeAt(0) - 0xdc00] ?? '';
    if (parts.map((part, index) => (index % 2 === 0 ? part : textOf(part))).join('') !== plain)
      throw new LanguageError(
        'chat_template_failed',
        "The model's chat template searches its output for special tokens, and cannot tell its own from texts of this conversation.",
      );
    return parts.flatMap((part, index): CodedPart[] => {
      if (index % 2 === 0) return part === '' ? [] : [{ type: 'text', text: part }];
      return [{ type: 'special', token: this.#added.get(textOf(part)) ?? 0 }];
    });
  }

  #template(half: string): Template {
    return getOrInsert(this.#coded, half, () => {
      const template = new Template(this.#source);
      encodeOutput(template.nodes, (text) => this.#encode(text, half));
      return template;
    });
  }

  #encode(text: string, half: string): string {
    return text.replace(
      this.#pattern,
      (found) => half + String.fromCharCode(0xdc00 + this.#texts.indexOf(found)),
    );
  }
}

/** Renders the model's own template. Throws a `LanguageError` if the template refuses the conversation. */
function renderTemplate(template: Template, values: Record<string, unknown>): string {
  try {
    return template.render(values);
  } catch (cause) {
    const remedy = cause instanceof BudgetError ? '. Send fewer or smaller messages and tools' : '';
    throw new LanguageError(
      'chat_template_failed',
      `The model's chat template refuses this conversation: ${messageOf(cause)}${remedy}`,
      { cause },
    );
  }
}

/** Codes: the second halves of surrogate pairs. */
const maxTokens = 1024;

/** The first half of a surrogate pair of a private plane that does not occur in a text. */
function unusedHalf(text: string): string {
  for (let code = 0xdb80; code <= 0xdbff; code++) {
    const half = String.fromCharCode(code);
    // JSON escapes halves without their other half, which two texts could bring together.
    if (!text.includes(half) && !text.includes(`\\u${code.toString(16)}`)) return half;
  }
  throw new LanguageError(
    'too_many_private_characters',
    'The request uses characters of all 128 blocks of the private planes U+F0000 to U+10FFFF; the chat template needs one of them.',
  );
}

const writingOperators: ReadonlySet<string> = new Set(['+', '~', '*', '%', 'and', 'or']);

/** Filters and methods whose arguments are written, with the first of them that is. */
const writingArguments: Readonly<Record<string, number>> = {
  default: 0,
  d: 0,
  join: 0,
  replace: 1,
  append: 0,
};

/**
 * Changes the string literals of a parsed template that are written, not those that something is compared with, split at
 * or looked up by.
 */
function encodeOutput(node: unknown, encode: (text: string) => string): void {
  if (Array.isArray(node)) for (const inner of node) encodeOutput(inner, encode);
  if (!isNode(node)) return;
  if (node.type === 'StringLiteral') node.value = encode(node.value);
  else encodeOutput(writtenParts(node), encode);
}

/** The parts of a node whose texts may be written. */
function writtenParts(node: Node): unknown[] {
  switch (node.type) {
    case 'ObjectLiteral':
      return [...node.value.values()];
    case 'BinaryExpression':
      return writingOperators.has(node.operator.value) ? [node.left, node.right] : [];
    case 'CallExpression': {
      const { callee, args } = node;
      if (callee.type !== 'MemberExpression') return [args];
      return [callee.object, ...writtenArguments(callee.property, args)];
    }
    case 'FilterExpression': {
      const { operand, filter } = node;
      return [
        operand,
        ...(filter.type === 'CallExpression' ? writtenArguments(filter.callee, filter.args) : []),
      ];
    }
    case 'If':
      return [node.body, node.alternate];
    case 'Ternary':
      return [node.trueExpr, node.falseExpr];
    case 'SelectExpression':
      return [node.lhs];
    case 'MemberExpression':
      return [node.object];
    case 'TestExpression':
    case 'UnaryExpression':
    case 'SliceExpression':
      return [];
    default:
      return Object.values(node);
  }
}

function writtenArguments(name: Node, args: readonly Node[]): readonly Node[] {
  const first = name.type === 'Identifier' ? writingArguments[name.value] : undefined;
  return first === undefined ? [] : args.slice(first);
}
