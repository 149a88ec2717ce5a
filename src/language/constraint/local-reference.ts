import { isObject } from '../../util/json.ts';

/** What a `$ref` into the same document leads to: a JSON pointer (RFC 6901) as a URI fragment. */
export function resolveReference(pointer: string, document: unknown): unknown {
  if (pointer !== '#' && !pointer.startsWith('#/')) return undefined;
  let target: unknown = document;
  for (const step of pointer.split('/').slice(1)) {
    const key = unescapeStep(step);
    if (Array.isArray(target)) target = target[Number(key)];
    else target = isObject(target) && Object.hasOwn(target, key) ? target[key] : undefined;
  }
  return target;
}

function unescapeStep(step: string): string {
  try {
    return decodeURIComponent(step).replaceAll('~1', '/').replaceAll('~0', '~');
  } catch {
    // A lone "%" escapes nothing.
    return step;
  }
}
