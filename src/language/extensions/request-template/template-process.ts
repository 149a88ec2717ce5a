/**
 * Renders templates that come with requests. A process, not a thread: a template can allocate so much memory at once
 * that the whole process ends.
 */
import { messageOf } from '../../../util/error.ts';
import { type ExactJson, parseExactJson } from '../../../util/exact-json.ts';
import { Template } from '../../jinja/template.ts';

export interface TemplateTask {
  source: string;
  variables: Record<string, unknown>;
}

/** A task as the process gets it. */
export interface SentTask {
  source: string;
  /** As JSON, which keeps every digit of a number. */
  variables: string;
  /** The longest text that the template may write. */
  characters: number;
}

type TemplateAnswer = { type: 'ready' } | TemplateResult;

export type TemplateResult =
  | { type: 'text'; text: string }
  /** `reason` is for the template's author. */
  | { type: 'failed'; reason: string };

function render({ source, variables, characters }: SentTask): TemplateResult {
  try {
    const text = new Template(source).render(fieldsOf(parseExactJson(variables)));
    if (text.length <= characters) return { type: 'text', text };
    return {
      type: 'failed',
      reason: `the template writes ${text.length} characters; the maximum is ${characters}`,
    };
  } catch (error) {
    return { type: 'failed', reason: messageOf(error).slice(0, 1000) };
  }
}

const fieldsOf = (json: ExactJson) => (json instanceof Map ? Object.fromEntries(json) : {});

const answer = (message: TemplateAnswer) => process.send?.(message);

process.on('message', (task: SentTask) => answer(render(task)));
answer({ type: 'ready' });
