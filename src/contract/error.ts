const marker = Symbol.for('martingale.error');

/**
 * Base class of all errors that martingale throws. `code` is stable and meant for programs. `message` is meant for
 * people: what happened, with which value, and what to do. It may quote another machine or a model; control characters
 * are removed, so that it is safe to show on a terminal.
 */
export class MartingaleError<Code extends string = string> extends Error {
  readonly code: Code;

  constructor(code: Code, message: string, options?: ErrorOptions) {
    super(printableLines(message), options);
    this.name = new.target.name;
    this.code = code;
  }

  /** Not a property of each error: Node would show it with every uncaught one. */
  get [marker](): true {
    return true;
  }

  /**
   * Whether the value is an error of this class. Unlike `instanceof`, this also recognises errors of another installed
   * copy of the package, by the names of their class and its base classes.
   */
  static isInstance<Instance extends MartingaleError>(
    this: abstract new (
      ...args: never
    ) => Instance,
    value: unknown,
  ): value is Instance {
    // biome-ignore lint/complexity/noThisInStatic: subclasses inherit this, and each recognises its own.
    const { name } = this;
    if (typeof value !== 'object' || value === null || !(marker in value)) return false;
    if (name === MartingaleError.name) return true;
    for (
      let prototype: unknown = Object.getPrototypeOf(value);
      prototype instanceof Object;
      prototype = Object.getPrototypeOf(prototype)
    )
      if (prototype.constructor.name === name) return true;
    return false;
  }
}

/** Characters that a terminal may treat as a command, a line end or a change of text direction. */
const terminalActive = /[\p{Control}\p{Bidi_Control}\u2028\u2029]/gu;

const [esc, bell, csi, end, osc] = ['\\u001b', '\\u0007', '\\u009b', '\\u009c', '\\u009d'];

/*
 * Escape sequences of terminals: commands with their numbers, and titles or links up to their end (ECMA-48). No
 * sequence can contain the start of another, so a text that consists of starts alone takes linear time.
 */
const sequences = new RegExp(
  [
    `(?:${esc}\\[|${csi})[0-?]*[ -/]*[@-~]`,
    `(?:${esc}\\]|${osc})[^${bell}${esc}${csi}${end}${osc}]*(?:${bell}|${esc}\\\\|${end})`,
    `${esc}[ -/]*[0-Z\\\\^-~]`,
  ].join('|'),
  'gu',
);

const activeRun = new RegExp(`${terminalActive.source}+`, 'gu');

/** Text from another machine, a model or a user as one line that is safe to show on a terminal. */
export function printable(text: string): string {
  return text.replace(sequences, '').replace(activeRun, ' ');
}

/** Like `printable`, for text of several lines, which stay separate. */
export function printableLines(text: string): string {
  return text
    .split('\n')
    .map((line) => printable(line.replace(/\t/g, '  ')))
    .join('\n');
}

/** An object as one line of JSON, including the line end, that is safe to show on a terminal. */
export function jsonLine(value: object): string {
  const escaped = (character: string) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
  return `${JSON.stringify(value).replace(terminalActive, escaped)}\n`;
}
