/** Copies what is not TypeScript in this folder beside the compiled code, where it is looked for at run time. */
import { copyFileSync, mkdirSync, readdirSync } from 'node:fs';

const source = new URL('.//', import.meta.url);
const target = new URL('../../../../dist/language/tokenizer/assets/', import.meta.url);

mkdirSync(target, { recursive: true });
for (const name of readdirSync(source))
  if (!name.endsWith('.ts')) copyFileSync(new URL(name, source), new URL(name, target));
