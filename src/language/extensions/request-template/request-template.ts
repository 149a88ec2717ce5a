import { chatLimits } from '../../../contract/basics.ts';
import type { ParsedChatCompletionRequest } from '../../../contract/index.ts';
import type { Caller } from '../../../util/fair-queue.ts';
import type { ConversationRenderer, RenderedConversation, RenderOptions, Turns } from '../../chat/render.ts';
import { invalidField } from '../../error.ts';
import { toolsJson } from '../../grammar/limits.ts';
import { mentions } from '../../jinja/template.ts';
import { LiteralPrompt, type TemplateValues } from './literal-prompt.ts';
import { refuseForgedRoles } from './marked-messages.ts';
import { TemplateRunner } from './template-runner.ts';

/** Variables with a request field of the same name. */
const fields = new Set(['messages', 'tools', 'documents', 'add_generation_prompt', 'continue_final_message']);

/** The variable of models whose reasoning can be turned off, such as Qwen3. In other templates it is like any other. */
const thinkingSwitch = 'enable_thinking';

/** Names of the template language. */
const builtins = new Set([
  ...['namespace', 'raise_exception', 'range', 'strftime_now'],
  ...['true', 'false', 'none', 'True', 'False', 'None', 'loop'],
]);

/**
 * What a request passes to the chat template besides its messages and tools. Null if that has no effect, such as
 * variables and documents that the template does not mention.
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
  if (bytes > chatLimits.template)
    throw invalidField(
      ['chat_template'],
      `has ${bytes} bytes; the maximum is ${chatLimits.template}`,
      source,
    );
  for (const [name, value] of Object.entries(variables)) {
    const isSwitch = name === thinkingSwitch && source === undefined && mentions(ownTemplate, name);
    const wrong =
      name === thinkingSwitch && !isSwitch ? null : problemOf(name, value, request.reasoning_effort);
    if (wrong) throw invalidField(['chat_template_kwargs', name], wrong, value);
  }
  if (source !== undefined) return { source, documents, variables };
  const seen = Object.entries(variables).filter(([name]) => mentions(ownTemplate, name));
  const shown = documents.length > 0 && mentions(ownTemplate, 'documents') ? documents : [];
  if (seen.length === 0 && shown.length === 0) return null;
  return { documents: shown, variables: Object.fromEntries(seen) };
}

function problemOf(name: string, value: unknown, effort: string | undefined): string | null {
  if (fields.has(name)) return `cannot be set here, because ${name} is a field of the request`;
  if (builtins.has(name)) return 'is reserved in the template language; use another name';
  if (!/^[\p{L}_][\p{L}\p{N}_]*$/u.test(name)) return 'is not a valid template variable name';
  if (name === 'reasoning_effort' && effort !== undefined && value !== effort)
    return `differs from the request's field reasoning_effort, which is ${JSON.stringify(effort)}; send only one`;
  if (name === thinkingSwitch && effort !== undefined && value !== (effort !== 'none'))
    return `contradicts the request's field reasoning_effort, which is ${JSON.stringify(effort)}; send only one`;
  return null;
}

// One per process, because it starts a child process.
const runner = new TemplateRunner();

/** Renders a conversation with further variables of the caller and, with `source`, with a template of the caller. */
export async function renderWith(
  { source, documents, variables = {} }: TemplateValues,
  conversation: Turns,
  options: RenderOptions,
  { renderer, caller }: { renderer: ConversationRenderer; caller?: Caller | undefined },
): Promise<RenderedConversation> {
  const { turns, tools, location = [] } = conversation;
  const shown = documents && documents.length > 0 ? { documents } : {};
  if (source === undefined)
    return renderer.render(conversation, { ...options, values: { ...variables, ...shown } });
  const { tokenizer } = renderer;
  renderer.checkCount(turns, options.contextLength);
  if (tools) toolsJson(tools, [...location, 'tools']);
  refuseForgedRoles(turns, tokenizer.added);
  const prompt = new LiteralPrompt({ turns, tools }, { documents, variables }, tokenizer.added);
  const { continueFinalMessage = false, addGenerationPrompt } = options;
  const values = {
    ...renderer.variables(options),
    ...prompt.values({ continueFinalMessage }),
    add_generation_prompt: addGenerationPrompt,
  };
  const result = await runner.render({ source, variables: values }, caller);
  if (result.type === 'failed')
    throw invalidField(['chat_template'], `could not be rendered: ${result.reason}`, source);
  return renderer.assemble(prompt.cut(result.text, { continueFinalMessage }), prompt.slots, options);
}
