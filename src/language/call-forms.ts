/** Stands for the id of a call in the texts of a form: nine letters and digits, as Mistral's templates want it. */
export const CALL_ID = '\0';

/**
 * How a model writes calls, as the texts around the names and the arguments: `open`, then for each call `beforeName`, its
 * name, `beforeArguments`, its arguments and `after`, with `between` between two calls, then `close`. Reading, writing and
 * constraining replies all follow it.
 */
export interface CallForm {
  /**
   * `json`: an object. `python`: keyword arguments, `a=1, b="x"`. `parameters`: `<parameter=a>\n1\n</parameter>\n`, with texts
   * as they are.
   */
  arguments: 'json' | 'python' | 'parameters';
  /** Those of its texts that may be tokens of their own. The one that calls begin with tells them from text; without it, a
   * reply that begins as a call is one. */
  tags: readonly string[];
  open: string;
  beforeName: string;
  beforeArguments: string;
  after: string;
  between: string;
  close: string;
  /** Between text and the first call. */
  afterText: string;
  /** Whether JSON may have a space after each comma and colon. */
  mayHaveSpaces: boolean;
}

const deepseekTags = [
  '<｜tool▁calls▁begin｜>',
  '<｜tool▁call▁begin｜>',
  '<｜tool▁sep｜>',
  '<｜tool▁call▁end｜>',
  '<｜tool▁calls▁end｜>',
] as const;
const toolCall = ['<tool_call>', '</tool_call>'] as const;

const bare = (field: 'arguments' | 'parameters'): CallForm => ({
  arguments: 'json',
  tags: [],
  open: '',
  beforeName: '{"name": "',
  beforeArguments: `", "${field}": `,
  after: '}',
  between: '; ',
  close: '',
  afterText: '; ',
  mayHaveSpaces: true,
});

/** By the names of the option `format.toolCalls`. */
export const callForms = {
  hermes: {
    ...bare('arguments'),
    tags: toolCall,
    beforeName: '<tool_call>\n{"name": "',
    after: '}\n</tool_call>',
    between: '\n',
    afterText: '\n',
  },
  named: {
    arguments: 'json',
    tags: toolCall,
    open: '',
    beforeName: '<tool_call>',
    beforeArguments: '',
    after: '</tool_call>',
    between: '',
    close: '',
    afterText: '',
    mayHaveSpaces: false,
  },
  lfm2: {
    arguments: 'python',
    tags: ['<|tool_call_start|>', '<|tool_call_end|>'],
    open: '<|tool_call_start|>[',
    beforeName: '',
    beforeArguments: '(',
    after: ')',
    between: ', ',
    close: ']<|tool_call_end|>',
    afterText: '',
    mayHaveSpaces: false,
  },
  mistral: {
    ...bare('arguments'),
    tags: ['[TOOL_CALLS]'],
    open: '[TOOL_CALLS][',
    after: `, "id": "${CALL_ID}"}`,
    between: ', ',
    close: ']',
    afterText: '',
  },
  ministral: {
    ...bare('arguments'),
    tags: ['[TOOL_CALLS]', '[CALL_ID]', '[ARGS]'],
    beforeName: '[TOOL_CALLS]',
    beforeArguments: `[CALL_ID]${CALL_ID}[ARGS]`,
    after: '',
    between: '',
    afterText: '',
  },
  'qwen3-coder': {
    arguments: 'parameters',
    tags: toolCall,
    open: '',
    beforeName: '<tool_call>\n<function=',
    beforeArguments: '>\n',
    after: '</function>\n</tool_call>',
    between: '\n',
    close: '',
    afterText: '\n',
    mayHaveSpaces: true,
  },
  deepseek: {
    ...bare('arguments'),
    tags: deepseekTags,
    open: '<｜tool▁calls▁begin｜>',
    beforeName: '<｜tool▁call▁begin｜>function<｜tool▁sep｜>',
    beforeArguments: '\n```json\n',
    after: '\n```<｜tool▁call▁end｜>',
    between: '\n',
    close: '<｜tool▁calls▁end｜>',
    afterText: '',
  },
  'deepseek-v3.1': {
    ...bare('arguments'),
    tags: deepseekTags,
    open: '<｜tool▁calls▁begin｜>',
    beforeName: '<｜tool▁call▁begin｜>',
    beforeArguments: '<｜tool▁sep｜>',
    after: '<｜tool▁call▁end｜>',
    between: '',
    close: '<｜tool▁calls▁end｜>',
    afterText: '',
  },
  llama: bare('parameters'),
  json: bare('arguments'),
} as const satisfies Record<string, CallForm>;

/** What calls begin with; empty for bare JSON. */
export const tagOf = ({ tags, open, beforeName }: CallForm): string =>
  tags.find((tag) => (open + beforeName).startsWith(tag)) ?? '';

/** The tags of all forms: text in a reply, also where a tokenizer has them as special tokens. */
export const callTags: ReadonlySet<string> = new Set(
  Object.values(callForms).flatMap(({ tags }: CallForm) => tags),
);

/** The styles of tool calls, and of reasoning. */
export const replyStyles = {
  toolCalls: [
    'hermes',
    'named',
    'lfm2',
    'mistral',
    'ministral',
    'deepseek',
    'deepseek-v3.1',
    'qwen3-coder',
    'llama',
    'json',
    'none',
  ],
  reasoning: ['think', 'none'],
} as const satisfies {
  toolCalls: readonly (keyof typeof callForms | 'none')[];
  reasoning: readonly string[];
};

/** How a model writes the parts of a reply that are not text. */
export interface ReplyStyles {
  /**
   * `hermes`: `{"name": ..., "arguments": ...}` between `<tool_call>` and `</tool_call>`, also Qwen's. `named`: a name and
   * its arguments, `add{"a":1}`, between the same tags. `lfm2`: a list of calls in Python, `[add(a=1)]`, between
   * `<|tool_call_start|>` and `<|tool_call_end|>`. `mistral`: a list of JSON after `[TOOL_CALLS]`. `ministral`: names and
   * arguments, `[TOOL_CALLS]add[ARGS]{"a": 1}`, as newer models of Mistral. `deepseek` and
   * `deepseek-v3.1`: names and JSON between DeepSeek's tags, with and without a fence. `qwen3-coder`:
   * parameters between tags of their own, also Qwen3.5's. `json`: as `hermes` without tags. `llama`: bare
   * JSON with `parameters`. `none`: no calls. Default: as the template and the tokenizer show.
   */
  toolCalls?: (typeof replyStyles.toolCalls)[number];
  /** `think`: between `<think>` and `</think>`. Default: as the template shows. */
  reasoning?: (typeof replyStyles.reasoning)[number];
}
