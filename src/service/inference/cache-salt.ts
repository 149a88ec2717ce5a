import type { Access } from '../access.ts';

/**
 * The salt under which an engine keeps what it has computed of a prompt: the request's own, within its key's entity.
 * So entities never share a prefix, and neither do the salts of one entity. Keys that see every entity are one among
 * themselves.
 */
export function cacheSaltOf({ entity }: Access, salt: string | null): string | null {
  return entity === null && salt === null ? null : JSON.stringify([entity, salt]);
}
