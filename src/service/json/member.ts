import type { ByteSource } from './byte-source.ts';
import { type Child, childrenOf } from './children.ts';
import { containerAt, keyAt, wholeText } from './parse-in-slices.ts';

/**
 * The text of a member of the object that JSON text holds, as it is written there; undefined where there is none. Of
 * several of one name it is the last, as with `JSON.parse`, which must have taken the text.
 */
export async function memberSource(source: ByteSource, name: string): Promise<string | undefined> {
  const whole = await wholeText(source);
  if ((await containerAt(source, whole)) !== '{') return undefined;
  let found: Child | undefined;
  for await (const child of childrenOf(source, whole))
    if (child.key && (await keyAt(source, child.key)) === name) found = child;
  return found && (await source.read(found)).toString('utf8');
}
