/** The inside of a worker thread: TypeScript where this is TypeScript, JavaScript in the built package. */
export const threadModule = new URL(
  `./thread${import.meta.url.endsWith('.ts') ? '.ts' : '.js'}`,
  import.meta.url,
);
