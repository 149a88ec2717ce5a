/** Reads groups in a thread: the groups of one base model, one at a time. */
import { parentPort, workerData } from 'node:worker_threads';
import { openLanguage, type SharedLanguage } from '../../language/chat/read-language.ts';
import { ConversationRenderer } from '../../language/chat/render.ts';
import { LanguageError } from '../../language/error.ts';
import { fromLanguage, RequestValidationError, ServiceError } from '../errors.ts';
import { MemorySource } from '../json/byte-source.ts';
import { type PackedGroup, type PackGroupContext, packGroup } from './pack-group.ts';

/** A group to read. */
export interface PackTask {
  body: Uint8Array;
  base: PackGroupContext['base'];
  logitsProcessors: readonly string[];
  /** Hashes of constraints that nothing was sampled under. */
  unknownConstraints: readonly string[];
}

/** Messages of the thread: `ready` when it has started, then one for each group. */
export type PackReport =
  | { type: 'ready' }
  /** `constraints`: the hashes that the group names. Whoever asked must know them. */
  | { type: 'packed'; packed: PackedGroup; constraints: string[] }
  | {
      type: 'refused';
      refusal: Pick<ServiceError, 'status' | 'code' | 'message'>;
      issues: RequestValidationError['issues'] | null;
    }
  | { type: 'failed'; message: string };

const port = parentPort;
if (!port) throw new Error('this module runs in a worker thread');
const { tokenizer, format } = openLanguage(workerData satisfies SharedLanguage);
const tools = { format, renderer: new ConversationRenderer(tokenizer, format) };

port.on('message', async ({ body, base, logitsProcessors, unknownConstraints }: PackTask) => {
  const named = new Set<string>();
  const find = async (hash: string) => {
    named.add(hash);
    return unknownConstraints.includes(hash) ? undefined : hash;
  };
  try {
    const source = new MemorySource(Buffer.from(body.buffer, body.byteOffset, body.byteLength));
    const packed = await packGroup(source, {
      base,
      tools,
      engine: { logitsProcessors },
      constraints: { find },
    });
    const report = { type: 'packed', packed, constraints: [...named] } satisfies PackReport;
    port.postMessage(report, [packed.content.buffer]);
  } catch (error) {
    port.postMessage(reportOf(error instanceof LanguageError ? fromLanguage(error) : error));
  }
});
port.postMessage({ type: 'ready' } satisfies PackReport);

function reportOf(error: unknown): PackReport {
  if (!(error instanceof ServiceError)) return { type: 'failed', message: String(error) };
  const { status, code, message } = error;
  const issues = error instanceof RequestValidationError ? error.issues : null;
  return { type: 'refused', refusal: { status, code, message }, issues };
}
