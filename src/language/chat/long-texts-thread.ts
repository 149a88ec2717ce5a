/** Encodes the long texts of one tokenizer. */
import { parentPort, workerData } from 'node:worker_threads';
import { openLanguage, type SharedLanguage } from './read-language.ts';

/** A text to encode, and how many tokens it may have. */
export interface LongText {
  text: string;
  maxTokens: number;
}

export type LongTextReport = { type: 'tokens'; tokens: Uint32Array<ArrayBuffer> } | { type: 'too_long' };

const port = parentPort;
if (!port) throw new Error('this module runs in a worker thread');
const { tokenizer } = openLanguage(workerData satisfies SharedLanguage);

port.on('message', ({ text, maxTokens }: LongText) => {
  const found = tokenizer.encode(text, maxTokens);
  if (found.length > maxTokens) return port.postMessage({ type: 'too_long' } satisfies LongTextReport);
  const tokens = Uint32Array.from(found);
  port.postMessage({ type: 'tokens', tokens } satisfies LongTextReport, [tokens.buffer]);
});
port.postMessage('ready');
