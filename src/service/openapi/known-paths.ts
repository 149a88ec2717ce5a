import type { Operation } from './operation.ts';
import { operations } from './operations.ts';

const patterns = operations.map((operation) => ({ operation, pattern: patternOf(operation.path) }));

function patternOf(path: string): RegExp {
  // A model's name has slashes in it; every other parameter is one segment.
  const segments = path
    .replaceAll('.', '\\.')
    .replace(/\{(\w+)\}/g, (_, name) => (name === 'model' ? '.+' : '[^/]+'));
  return new RegExp(`^${segments}$`);
}

/** The operation that a request asks for; HEAD asks for what GET would answer. */
export function findOperation(method: string, path: string): Operation | undefined {
  const wanted = method === 'HEAD' ? 'get' : method.toLowerCase();
  return patterns.find(({ operation, pattern }) => operation.method === wanted && pattern.test(path))
    ?.operation;
}

/** The methods of a path, as the header `Allow` lists them; none for a path that is not there. */
export function methodsOf(path: string): string[] {
  const methods = patterns
    .filter(({ pattern }) => pattern.test(path))
    .map(({ operation }) => operation.method.toUpperCase());
  if (methods.length === 0) return [];
  return [...methods, ...(methods.includes('GET') ? ['HEAD'] : []), 'OPTIONS'];
}
