/**
 * Renders templates that come with requests, in a process of its own: a template can ask for so much memory at once
 * that not its thread ends but the process that the thread is in.
 */
import { createContext, Script } from 'node:vm';
import { Template } from '@huggingface/jinja';
import {
  type TemplateAnswer,
  type TemplateResult,
  type TemplateTask,
  templateLimits,
} from './template-task.ts';

// Run by a script, since only scripts have a time limit.
const script = new Script('render()');

function render({ source, variables }: TemplateTask): TemplateResult {
  try {
    const context = createContext({ render: () => new Template(source).render(variables) });
    const text = String(script.runInContext(context, { timeout: templateLimits.timeoutMs }));
    if (text.length <= templateLimits.characters) return { type: 'text', text };
    return {
      type: 'failed',
      reason: `the template writes ${text.length} characters, and ${templateLimits.characters} is the most; shorten what it writes`,
    };
  } catch (error) {
    return { type: 'failed', reason: reasonOf(error) };
  }
}

function reasonOf(error: unknown): string {
  // Errors of the script's own realm are no instances of this one's Error.
  if (typeof error !== 'object' || error === null) return String(error);
  if ('code' in error && error.code === 'ERR_SCRIPT_EXECUTION_TIMEOUT')
    return `the template takes longer than ${templateLimits.timeoutMs} ms; make its loops shorter`;
  return 'message' in error ? String(error.message).slice(0, 1000) : String(error);
}

const answer = (message: TemplateAnswer) => process.send?.(message);

process.on('message', (task: TemplateTask) => answer(render(task)));
answer({ type: 'ready' });
