import { LanguageError } from '../error.ts';
import type { Tokenizer } from '../tokenizer/tokenizer.ts';

/** A chat template in place of a checkpoint's own. */
export interface GivenTemplate {
  /** A name, or the path of a file. */
  name: string;
  /** Jinja source; null for the template of this name. */
  source: string | null;
}

/** How a message is framed: what stands before its role, after it, and at its end. */
interface Frame {
  begin: string;
  open: string;
  close: string;
  end: string;
  /** The role of replies. Default `assistant`. */
  reply?: string;
  /** Whether there are system messages. Without them, their text begins the user's first message. Default true. */
  hasSystem?: boolean;
}

/** By the token that shows it. */
const frames: Readonly<Record<string, Frame>> = {
  '<|im_start|>': { begin: '', open: '<|im_start|>', close: '\\n', end: '<|im_end|>\\n' },
  '<|start_header_id|>': {
    begin: '{{- bos_token }}',
    open: '<|start_header_id|>',
    close: '<|end_header_id|>\\n\\n',
    end: '<|eot_id|>',
  },
  '<start_of_turn>': {
    begin: '{{- bos_token }}',
    open: '<start_of_turn>',
    close: '\\n',
    end: '<end_of_turn>\\n',
    reply: 'model',
    hasSystem: false,
  },
};

/** Tools as JSON in the system message, calls between `<tool_call>` tags, and results in a turn of the user. */
function hermes({ begin, open, close, end, reply = 'assistant', hasSystem = true }: Frame): string {
  const [condition, role] = hasSystem
    ? ['tools or has_system', 'system']
    : ["shown.text and (not rest or rest[0].role != 'user')", 'user'];
  return `${begin}
{%- set has_system = messages[0].role == 'system' %}
{%- set rest = messages[1:] if has_system else messages %}
{%- set shown = namespace(text=messages[0].content if has_system else '') %}
{%- if tools %}
  {%- set shown.text = shown.text + ('\\n\\n' if has_system else '') + 'You can call tools. Their signatures, one a line:\\n<tools>' %}
  {%- for tool in tools %}{%- set shown.text = shown.text + '\\n' + (tool | tojson) %}{%- endfor %}
  {%- set shown.text = shown.text + '\\n</tools>\\nTo call a tool, write its name and its arguments:\\n<tool_call>\\n{"name": "...", "arguments": {...}}\\n</tool_call>' %}
{%- endif %}
{%- if ${condition} %}{{- '${open}${role}${close}' + shown.text + '${end}' }}{%- set shown.text = '' %}{%- endif %}
{%- for message in rest %}
  {%- if message.role == 'assistant' %}
    {{- '${open}${reply}${close}' + (message.content or '') }}
    {%- for call in message.tool_calls or [] %}
      {{- ('\\n' if message.content or not loop.first else '') + '<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' }}
      {{- call.function.arguments | tojson }}
      {{- '}\\n</tool_call>' }}
    {%- endfor %}
    {{- '${end}' }}
  {%- elif message.role == 'tool' %}
    {{- ('\\n' if loop.previtem and loop.previtem.role == 'tool' else '${open}user${close}') + '<tool_response>\\n' + message.content + '\\n</tool_response>' }}
    {%- if loop.last or loop.nextitem.role != 'tool' %}{{- '${end}' }}{%- endif %}
  {%- else %}
    {{- '${open}' + message.role + '${close}' + (shown.text + '\\n\\n' if shown.text else '') + message.content + '${end}' }}
    {%- set shown.text = '' %}
  {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '${open}${reply}${close}' }}{%- endif %}`;
}

export const chatTemplateNames = ['hermes'] as const;

/** @throws LanguageError (`checkpoint_unsupported`) if a named template needs tokens that the model does not have */
export function sourceOf({ name, source }: GivenTemplate, { added }: Pick<Tokenizer, 'added'>): string {
  if (source !== null) return source;
  const frame = Object.entries(frames).find(([token]) => added.has(token))?.[1];
  if (frame) return hermes(frame);
  throw new LanguageError(
    'checkpoint_unsupported',
    `The chat template ${name} needs one of the tokens ${Object.keys(frames).join(', ')}, which this tokenizer does not have. Give a file of its own template.`,
  );
}
