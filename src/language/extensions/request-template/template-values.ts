import type { ParsedChatCompletionRequest } from '../../../contract/index.ts';
import { invalidField } from '../../error.ts';
import type { TemplateValues } from './literal-prompt.ts';
import { templateLimits } from './template-task.ts';

/** Variables that the request says with fields of their own. */
const fields = new Set(['messages', 'tools', 'documents', 'add_generation_prompt', 'continue_final_message']);

/** What templates call by name. */
const builtins = new Set([
  ...['namespace', 'raise_exception', 'range', 'strftime_now'],
  ...['true', 'false', 'none', 'True', 'False', 'None', 'loop'],
]);

/**
 * What a request gives the chat template beside its messages and tools; null where it gives nothing that the template
 * looks at: further variables and documents have no effect in a template that does not name them.
 */
export function toTemplateValues(
  request: Pick<
    ParsedChatCompletionRequest,
    'chat_template' | 'chat_template_kwargs' | 'documents' | 'reasoning_effort'
  >,
  ownTemplate: string,
): TemplateValues | null {
  const { chat_template: source, chat_template_kwargs: variables = {}, documents = [] } = request;
  const bytes = Buffer.byteLength(source ?? '');
  if (bytes > templateLimits.sourceBytes)
    throw invalidField(
      ['chat_template'],
      `has ${bytes} bytes, and ${templateLimits.sourceBytes} is the most; make it shorter`,
      source,
    );
  for (const [name, value] of Object.entries(variables)) {
    const wrong = whatIsWrong(name, value, request.reasoning_effort);
    if (wrong) throw invalidField(['chat_template_kwargs', name], wrong, value);
  }
  if (source !== undefined) return { source, documents, variables };
  const seen = Object.entries(variables).filter(([name]) => namesIt(ownTemplate, name));
  const shown = namesIt(ownTemplate, 'documents') ? documents : [];
  if (seen.length === 0 && shown.length === 0) return null;
  return { documents: shown, variables: Object.fromEntries(seen) };
}

function whatIsWrong(name: string, value: unknown, effort: string | undefined): string | null {
  if (fields.has(name)) return `cannot be set here; ${name} is a field of the request`;
  if (builtins.has(name)) return 'is a word of the template language; take another name';
  if (!/^[\p{L}_][\p{L}\p{N}_]*$/u.test(name)) return 'is no name that a template could use';
  if (name === 'reasoning_effort' && effort !== undefined && value !== effort)
    return `differs from the request's field reasoning_effort, which is ${JSON.stringify(effort)}; give one of them`;
  return null;
}

const namesIt = (template: string, name: string) =>
  new RegExp(`(?<![\\p{L}\\p{N}_])${name}(?![\\p{L}\\p{N}_])`, 'u').test(template);
