import type { ReplyStyles } from '../call-forms.ts';
import { JsonFields, readBytes } from '../tokenizer/json-fields.ts';
import { filesOf, type ModelFiles } from '../tokenizer/model-files.ts';
import { rowsOf, tokenizerOf } from '../tokenizer/read-tokenizer.ts';
import type { ChatFormat, Tokenizer } from '../tokenizer/tokenizer.ts';
import type { GivenTemplate } from './chat-templates.ts';
import { readChatFormat } from './read-chat-format.ts';

/** How a base model writes text and conversations. */
export interface Language {
  tokenizer: Tokenizer;
  format: ChatFormat;
}

/** A language for other threads: plain data, with `tokenizer.json` in shared memory. */
export interface SharedLanguage {
  path: string;
  file: Uint8Array<SharedArrayBuffer>;
  /** See `rowsOf`. */
  rows: number | undefined;
  format: ChatFormat;
}

/**
 * The tokenizer and the chat format of a checkpoint, from its folder or files. Other threads open
 * `shared` in place of reading the files again. Reading 150,000 tokens takes about a second, so callers keep the result.
 * `styles`: parts of the format that are set and not looked for; `template`: replaces the checkpoint's own.
 *
 * @throws LanguageError (`checkpoint_unsupported`, `bad_checkpoint`) that names file, field and value.
 */
export function readLanguage(
  from: string | ModelFiles,
  styles: ReplyStyles = {},
  template?: GivenTemplate,
): Language & { shared: SharedLanguage } {
  const files = filesOf(from);
  const path = files.pathOf('tokenizer.json');
  const content = readBytes(files, 'tokenizer.json');
  const rows = rowsOf(files);
  const tokenizer = tokenizerOf(JsonFields.parse(path, content), rows);
  const format = readChatFormat(files, tokenizer, styles, template);
  const file = new Uint8Array(new SharedArrayBuffer(content.length));
  file.set(content);
  return { tokenizer, format, shared: { path, file, rows, format } };
}

/** The language that another thread has read. */
export function openLanguage({ path, file, rows, format }: SharedLanguage): Language {
  return { tokenizer: tokenizerOf(JsonFields.parse(path, Buffer.from(file.buffer)), rows), format };
}
