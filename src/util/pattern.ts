/** A text as a part of a regular expression that matches exactly it. `RegExp.escape` is not in Node 22. */
export const escapeForPattern = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
