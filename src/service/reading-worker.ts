/** Reads long texts, large bodies or groups in a thread, one at a time. */
import { once } from 'node:events';
import { parentPort, workerData } from 'node:worker_threads';
import { ConversationRenderer, LanguageError, openLanguage, type SharedLanguage } from '../language/index.ts';
import { threadContent } from './bodies/bodies.ts';
import { fromLanguage, RequestValidationError, ServiceError } from './errors.ts';
import { chatText } from './inference/chat-request.ts';
import type { GroupTask } from './jobs/group-packer.ts';
import { type BodyQuestion, type BodyTask, type CheckedAgainst, packHere } from './jobs/pack-body.ts';
import { groupText, packGroup } from './jobs/pack-group.ts';
import { trajectoryText } from './jobs/packed-trajectories.ts';
import { exampleText } from './jobs/sft-job.ts';
import { toolTexts } from './json/exact-tools.ts';
import { toPieces } from './json/pieces.ts';
import { jsonText, readHere, type TextTask } from './json/read-text.ts';
import type { Answer, Report, SentTask } from './reading-thread.ts';

/** Asks who has sent a task. */
type Ask = (question: unknown) => Promise<unknown>;

/** The hashes of constraints of which whoever sent the task says that they are known. */
const knownHashes = (ask: (hash: string) => Promise<unknown>) => ({
  find: async (hash: string) => ((await ask(hash)) ? hash : undefined),
});

/** Does a task. Returns its result, and the buffers to transfer with it. */
type Work = (task: never, ask: Ask) => Promise<{ done: unknown; buffers: ArrayBuffer[] }>;

const kinds = [jsonText, chatText, exampleText, groupText, trajectoryText];

async function readText({ kind, content }: TextTask) {
  const known = kinds.find(({ name }) => name === kind);
  if (!known) throw new Error(`no text is read as ${kind}`);
  const value = readHere<unknown>(known, threadContent(content));
  const pieces = toPieces(value);
  return { done: { pieces, tools: toolTexts(value) }, buffers: pieces.map(({ buffer }) => buffer) };
}

async function readBody({ body, ...options }: BodyTask, ask: Ask) {
  const answerTo = (question: BodyQuestion) => ask(question);
  const packed = await packHere(threadContent(body), options, async (fields) => {
    const against = (await answerTo({ fields: toPieces(fields) })) as CheckedAgainst;
    return (
      against && {
        base: against.base,
        engine: { logitsProcessors: against.logitsProcessors },
        constraints: knownHashes((hash) => answerTo({ hash })),
      }
    );
  });
  // Its trajectories would have to be copied; the job reads them from its file.
  return packed
    ? { done: { ...packed, parts: null }, buffers: [packed.content.buffer] }
    : { done: null, buffers: [] };
}

function toolsOf(shared: SharedLanguage) {
  const { tokenizer, format } = openLanguage(shared);
  return { format, renderer: new ConversationRenderer(tokenizer, format) };
}

/** Only a thread that reads groups has a language. */
const tools = workerData ? toolsOf(workerData) : null;

async function readGroup({ body, base, logitsProcessors }: GroupTask, ask: Ask) {
  if (!tools) throw new Error('a thread without a language reads no groups');
  const content = threadContent(body);
  const context = { base, tools, engine: { logitsProcessors }, constraints: knownHashes(ask) };
  const done = await packGroup(content, readHere(groupText, content), context);
  return { done, buffers: [done.content.buffer] };
}

function reportOf(cause: unknown): Report<never> {
  const error = cause instanceof LanguageError ? fromLanguage(cause) : cause;
  if (!(error instanceof ServiceError)) return { type: 'failed', message: String(error) };
  const { status, code, message } = error;
  const issues = error instanceof RequestValidationError ? error.issues : null;
  return { type: 'refused', status, code, message, issues };
}

const works: Record<SentTask<never>['work'], Work> = { text: readText, body: readBody, group: readGroup };
const port = parentPort;
if (!port) throw new Error('this module runs in a worker thread');
port.on('message', async ({ work, task, questions }: SentTask<never>) => {
  const ask = async (question: unknown) => {
    const answered = once(questions, 'message');
    questions.postMessage(question);
    const [answer]: Answer[] = await answered;
    if (answer === undefined || answer === 'refused') throw new Error('the task was refused');
    return answer.answer;
  };
  try {
    const { done, buffers } = await works[work](task, ask);
    port.postMessage({ type: 'done', done } satisfies Report<unknown>, buffers);
  } catch (error) {
    port.postMessage(reportOf(error));
  } finally {
    questions.close();
  }
});
port.postMessage({ type: 'ready' } satisfies Report<never>);
