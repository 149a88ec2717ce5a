import { CheckpointFile } from '../tokenizer/checkpoint-file.ts';
import { chatFormat, loadTokenizer } from '../tokenizer/embedded.ts';
import { filesOf, type ModelFiles } from '../tokenizer/model-files.ts';
import { rowsOf, tokenizerOf } from '../tokenizer/read-tokenizer.ts';
import type { ChatFormat, Tokenizer } from '../tokenizer/tokenizer.ts';
import type { GivenTemplate } from './chat-templates.ts';
import type { ReplyStyles } from './text-calls.ts';

/** How a base model writes text and conversations. */
export interface Language {
  tokenizer: Tokenizer;
  format: ChatFormat;
}

/** The language of the tiny models. */
export function tinyLanguage(): Language {
  const tokenizer = loadTokenizer();
  return { tokenizer, format: chatFormat(tokenizer) };
}

/** A language for other threads: plain data, with `tokenizer.json` in shared memory. Null: the tiny models' language. */
export type SharedLanguage = {
  path: string;
  file: Uint8Array<SharedArrayBuffer>;
  /** See `rowsOf`. */
  rows: number | undefined;
  format: ChatFormat;
} | null;

/**
 * The tokenizer and the chat format of a checkpoint, from its folder or files. They are not read again: other threads open what is
 * `shared`. Reading 150,000 tokens takes about a second, so callers keep the result. `styles`: what of the format is set
 * rather than found; `template`: in place of its own.
 *
 * @throws LanguageError (`checkpoint_unsupported`) that names file, field and value.
 */
export async function readLanguage(
  from: string | ModelFiles,
  styles: ReplyStyles = {},
  template?: GivenTemplate,
): Promise<Language & { shared: SharedLanguage }> {
  // Only checkpoints have templates that must be run to be understood.
  const { readChatFormat } = await import('./read-chat-format.ts');
  const files = filesOf(from);
  const path = files.pathOf('tokenizer.json');
  const content = CheckpointFile.bytes(files, 'tokenizer.json');
  const rows = rowsOf(files);
  const tokenizer = tokenizerOf(CheckpointFile.parse(path, content), rows);
  const format = readChatFormat(files, tokenizer, styles, template);
  const file = new Uint8Array(new SharedArrayBuffer(content.length));
  file.set(content);
  return { tokenizer, format, shared: { path, file, rows, format } };
}

/** The language that another thread has read. */
export function openLanguage(shared: SharedLanguage): Language {
  if (shared === null) return tinyLanguage();
  const { path, file, rows, format } = shared;
  return { tokenizer: tokenizerOf(CheckpointFile.parse(path, Buffer.from(file.buffer)), rows), format };
}
