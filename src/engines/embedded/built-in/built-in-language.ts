import { fileURLToPath } from 'node:url';
import { type Language, readLanguage, type SharedLanguage } from '../../../language/index.ts';

const folder = fileURLToPath(new URL('.', import.meta.url));

let read: (Language & { shared: SharedLanguage }) | undefined;

/**
 * The tokenizer and the chat format of the models that come with the engine, from the files beside this one: byte-level
 * BPE with 512 ids, where every digit is a token, and a template that writes conversations compactly. Read when it is
 * first needed.
 *
 * @throws LanguageError (`bad_checkpoint`, `checkpoint_unsupported`) if a file is missing or changed.
 */
export function builtInLanguage(): Language & { shared: SharedLanguage } {
  read ??= readLanguage(folder);
  return read;
}
