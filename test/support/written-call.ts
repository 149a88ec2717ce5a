/** How the built-in models write one call. */
export const writtenCall = {
  ...{ beforeName: '<tool_call>', beforeArguments: '', after: '</tool_call>', between: null },
  mayHaveSpaces: false,
};
