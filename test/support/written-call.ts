/** How the built-in models write one call. */
export const writtenCall = {
  ...{ beforeName: '<tool_call>', beforeArguments: '', after: '</tool_call>', between: null },
  mayHaveSpaces: false,
};

/** How LFM2 writes one call. */
export const writtenPython = {
  ...{ beforeName: '', beforeArguments: '(', after: ')', between: null, mayHaveSpaces: false },
  python: { open: '<|tool_call_start|>[', close: ']<|tool_call_end|>' },
};

/** How Qwen3-Coder writes one call. */
export const writtenParameters = {
  ...{ beforeName: '<tool_call>\n<function=', beforeArguments: '>\n', after: '</function>\n</tool_call>' },
  ...{ between: null, mayHaveSpaces: true, arguments: 'parameters' as const },
};
