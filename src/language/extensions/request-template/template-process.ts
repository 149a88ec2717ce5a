/**
 * Renders templates that come with requests. A process, not a thread: a template can allocate so much memory at once
 * that the whole process ends.
 */
import { createContext, Script } from 'node:vm';
import { type ExactJson, parseExactJson } from '../../../util/exact-json.ts';
import { Template } from '../../jinja/template.ts';

export interface TemplateTask {
  source: string;
  variables: Record<string, unknown>;
}

/** A task with its limits: milliseconds to parse and render the template, and the longest text it may write. */
export interface LimitedTask {
  source: string;
  /** As JSON, which keeps every digit of a number. */
  variables: string;
  limits: { timeoutMs: number; characters: number };
}

type TemplateAnswer = { type: 'ready' } | TemplateResult;

export type TemplateResult =
  | { type: 'text'; text: string }
  /** `reason` is for the template's author. */
  | { type: 'failed'; reason: string };

// A script, because only scripts have a time limit.
const script = new Script('render()');

function render({ source, variables, limits: { timeoutMs, characters } }: LimitedTask): TemplateResult {
  try {
    const context = createContext({
      render: () => new Template(source).render(fieldsOf(parseExactJson(variables))),
    });
    const text = String(script.runInContext(context, { timeout: timeoutMs }));
    if (text.length <= characters) return { type: 'text', text };
    return {
      type: 'failed',
      reason: `the template writes ${text.length} characters; the maximum is ${characters}`,
    };
  } catch (error) {
    return { type: 'failed', reason: reasonOf(error, timeoutMs) };
  }
}

const fieldsOf = (json: ExactJson) => (json instanceof Map ? Object.fromEntries(json) : {});

function reasonOf(error: unknown, timeoutMs: number): string {
  // Errors of the script's realm are not instances of this realm's Error.
  if (typeof error !== 'object' || error === null) return String(error);
  if ('code' in error && error.code === 'ERR_SCRIPT_EXECUTION_TIMEOUT')
    return `the template takes longer than ${timeoutMs} ms; make its loops shorter`;
  return 'message' in error ? String(error.message).slice(0, 1000) : String(error);
}

const answer = (message: TemplateAnswer) => process.send?.(message);

process.on('message', (task: LimitedTask) => answer(render(task)));
answer({ type: 'ready' });
