import { chatFormat, loadTokenizer } from '../tokenizer/embedded.ts';
import { readTokenizer } from '../tokenizer/read-tokenizer.ts';
import type { ChatFormat, Tokenizer } from '../tokenizer/tokenizer.ts';
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

/**
 * The tokenizer and the chat format of a checkpoint's folder; those of the tiny models for null. Reading 150,000 tokens
 * takes about a second, so callers keep the result. `styles`: what of the format is set rather than found.
 *
 * @throws LanguageError (`checkpoint_unsupported`) that names file, field and value.
 */
export async function readLanguage(folder: string | null, styles: ReplyStyles = {}): Promise<Language> {
  if (folder === null) return tinyLanguage();
  // Only checkpoints have templates that must be run to be understood.
  const { readChatFormat } = await import('./read-chat-format.ts');
  const tokenizer = readTokenizer(folder);
  return { tokenizer, format: readChatFormat(folder, tokenizer, styles) };
}
