/** Compiles the constraints of requests in a thread, because a grammar may take longer than other requests can wait. */
import { parentPort, workerData } from 'node:worker_threads';
import { MartingaleError } from '../../contract/basics.ts';
import { messageOf } from '../../util/error.ts';
import { openLanguage, type SharedLanguage } from '../chat/read-language.ts';
import type { Constraint } from '../grammar/constraint.ts';
import { type ConstraintPlan, GrammarCompiler } from './compiler.ts';

export type CheckReport =
  | { type: 'plan'; plan: ConstraintPlan }
  | { type: 'refused'; code: string; message: string };

const port = parentPort;
if (!port) throw new Error('this module runs in a worker thread');
const { tokenizer, format } = openLanguage(workerData satisfies SharedLanguage);
const compiler = new GrammarCompiler(tokenizer, format);
const report = (message: CheckReport) => port.postMessage(message);

port.on('message', (constraint: Constraint) => {
  try {
    report({ type: 'plan', plan: compiler.plan(constraint) });
  } catch (error) {
    const code = MartingaleError.isInstance(error) ? error.code : 'engine_failed';
    report({ type: 'refused', code, message: messageOf(error) });
  }
});
port.postMessage('ready');
