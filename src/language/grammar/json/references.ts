import { isObject } from '../../../util/json.ts';
import type { JsonSchema } from '../constraint.ts';
import { innerSchemas } from './keywords.ts';

/** Resolves relative `$id`s of documents without one of their own. */
const noBase = 'https://schema.invalid/';

/** The schemas of a document that references lead to: by JSON pointer (RFC 6901), by anchor, or by `$id`. */
export class References {
  readonly #document: JsonSchema;
  readonly #byUri = new Map<string, JsonSchema>();
  /** The schema with an `$id` around each schema, and its URI. Pointers start there. */
  readonly #resources = new Map<unknown, { root: JsonSchema; uri: string }>();

  constructor(document: JsonSchema) {
    this.#document = document;
    const draft =
      typeof document.$schema === 'string' ? /draft-0(\d)/.exec(document.$schema)?.[1] : undefined;
    const isOld = draft === '3' || draft === '4';
    const pending = [{ schema: document, root: document, uri: noBase }];
    for (let next = pending.pop(); next; next = pending.pop()) {
      const { schema } = next;
      if (this.#resources.has(schema)) continue;
      const ownId = isOld ? schema.id : schema.$id;
      // Up to draft 7, nothing beside a reference counts.
      const id = draft !== undefined && schema.$ref !== undefined ? undefined : ownId;
      const uri = typeof id === 'string' ? resolved(id, next.uri) : next.uri;
      const resource = uri.split('#')[0] ?? '';
      if (uri !== next.uri && !this.#byUri.has(uri)) this.#byUri.set(uri, schema);
      const isResource = resource !== next.uri || schema === document;
      const root = isResource ? schema : next.root;
      if (isResource) this.#byUri.set(resource, schema);
      this.#resources.set(schema, { root, uri: resource });
      for (const keyword of ['$anchor', '$dynamicAnchor'])
        if (typeof schema[keyword] === 'string') this.#byUri.set(`${resource}#${schema[keyword]}`, schema);
      for (const [, inner] of innerSchemas(schema))
        if (isObject(inner)) pending.push({ schema: inner, root, uri: resource });
    }
  }

  /** The schema that a reference leads to; else the schema itself. */
  target(schema: unknown): unknown {
    return isObject(schema) ? (this.targetOf(schema) ?? schema) : schema;
  }

  /** The target of a schema's `$ref`; undefined if the document does not have it. */
  targetOf(schema: JsonSchema): unknown {
    if (typeof schema.$ref !== 'string') return undefined;
    const { root, uri } = this.#resources.get(schema) ?? { root: this.#document, uri: noBase };
    if (schema.$ref === '#') return root;
    if (schema.$ref.startsWith('#/')) return atPointer(schema.$ref, root);
    const target = resolved(schema.$ref, uri);
    const known = this.#byUri.get(target) ?? this.#byUri.get(target.replace(/#$/, ''));
    if (known) return known;
    const [resource = '', fragment = ''] = target.split('#');
    const other = this.#byUri.get(resource);
    return other && fragment.startsWith('/') ? atPointer(`#${fragment}`, other) : undefined;
  }
}

function resolved(reference: string, base: string): string {
  return URL.canParse(reference, base) ? new URL(reference, base).href : base;
}

function atPointer(pointer: string, root: JsonSchema): unknown {
  let target: unknown = root;
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
    // A lone "%" is not an escape.
    return step;
  }
}
