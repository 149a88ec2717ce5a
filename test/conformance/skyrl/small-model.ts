import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { generateCheckpoint } from '../../engines/embedded/checkpoint/generated.ts';

/** Shows the names of the tools alone: with their schemas, most of a step would be the time for their prompts. */
const template = `{%- if tools %}
    {{- '<|im_start|>system\\n<tool_call>' }}
    {%- for tool in tools %}
        {{- ' ' + tool.function.name }}
    {%- endfor %}
    {{- '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' }}
    {%- if message.content is string %}
        {{- message.content }}
    {%- endif %}
    {%- if message.tool_calls %}
        {%- for call in message.tool_calls %}
            {{- '<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' }}
            {{- call.function.arguments if call.function.arguments is string else call.function.arguments | tojson }}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}
    {%- endif %}
    {{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
`;

/** Writes a small Qwen3 with random weights that can learn to write a tool call exactly; returns its folder. */
export async function generateSmallModel(parent: string): Promise<string> {
  const folder = await generateCheckpoint(parent, 'qwen3', { vocabularySize: 709, logitScale: 6 });
  await writeFile(join(folder, 'chat_template.jinja'), template);
  return folder;
}
