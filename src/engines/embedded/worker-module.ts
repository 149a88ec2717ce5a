/** A worker's module beside this one: TypeScript where this is TypeScript, JavaScript in the built package. */
export function workerModule(path: string): URL {
  return new URL(`${path}${import.meta.url.endsWith('.ts') ? '.ts' : '.js'}`, import.meta.url);
}
