/** Texts of an environment by name. */
export type TextSet = Readonly<Record<string, string>>;

/** Of an environment without texts. */
export type NoTexts = Readonly<Record<never, string>>;

/** The texts of an environment, as they are recorded and sent; undefined if it has none. */
export const givenTexts = ({ texts }: { texts: TextSet }): TextSet | undefined =>
  Object.keys(texts).length > 0 ? texts : undefined;
