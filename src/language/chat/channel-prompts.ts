import { type ExactJson, exactJsonOf } from '../../util/exact-json.ts';
import { append } from '../../util/extremes.ts';
import type { Channels, ChatFormat, Tokenizer } from '../tokenizer/tokenizer.ts';
import { writtenChannels } from './channel-format.ts';
import { templateRefusal, turnsIn } from './channel-turns.ts';
import { type CodedPart, CodedTemplate } from './coded-template.ts';
import type { Turn } from './conversation.ts';
import type { ConversationPrompt, PromptOptions } from './conversation-prompts.ts';
import { ReplyParser } from './reply-parser.ts';
import { difference, partsThrough, probes } from './template-replies.ts';

/**
 * Renders conversations of a model whose replies are messages in channels. The template gets sampled replies as what is read
 * of them. Where it writes all of one, the sampled ids take the place of what it wrote; the published template of gpt-oss
 * leaves out the reasoning of earlier replies once a later one has no call, and ends a reply without a call otherwise when
 * messages follow. The prompt is then what the template says.
 */
export class ChannelPrompts {
  readonly #tokenizer: Tokenizer;
  readonly #format: ChatFormat;
  readonly #channels: Channels;
  readonly #template: CodedTemplate;
  readonly #toolTemplate: CodedTemplate;
  readonly #ends: ReadonlySet<number>;
  /** What the template writes to ask for a reply. */
  readonly #asking: readonly CodedPart[];

  constructor(tokenizer: Tokenizer, format: ChatFormat, channels: Channels) {
    const { template, toolTemplate, variables } = format;
    const texts = Object.values(variables);
    this.#tokenizer = tokenizer;
    this.#format = format;
    this.#channels = channels;
    this.#template = new CodedTemplate(template, tokenizer.added, texts);
    this.#toolTemplate =
      toolTemplate === null ? this.#template : new CodedTemplate(toolTemplate, tokenizer.added, texts);
    this.#ends = new Set([format.endToken, ...format.otherEndTokens, channels.end, channels.call]);
    const { question, asked } = probes(this.#template, variables);
    this.#asking = difference(asked, question) ?? [];
  }

  render(turns: readonly Turn[], tools: ExactJson, options: PromptOptions): ConversationPrompt {
    const { addGenerationPrompt, continueFinalMessage } = options;
    const last = turns.at(-1);
    const isOpen = continueFinalMessage && last?.role === 'assistant';
    // The last reply comes after the prompt that it was sampled for. Beside later replies the template would leave out reasoning
    // that this prompt had.
    if (last && (isOpen || (last.tokenIds && !addGenerationPrompt))) {
      const prompt = this.#prompt(turns.slice(0, -1), tools, { ...options, addGenerationPrompt: true });
      if (last.tokenIds) this.#addSampled(prompt, last.tokenIds, { isOpen });
      else append(prompt.parts, this.#written(last, turns.length - 1).slice(0, -1));
      return prompt;
    }
    const prompt = this.#prompt(turns, tools, options);
    return continueFinalMessage
      ? { ...prompt, parts: partsThrough(prompt.parts, last?.content ?? '') }
      : prompt;
  }

  #prompt(turns: readonly Turn[], tools: ExactJson, options: PromptOptions): ConversationPrompt {
    const known = turns.map((turn) => (turn.tokenIds ? { ...turn, ...this.#read(turn.tokenIds) } : turn));
    for (const [index, { toolCalls, tokenIds }] of known.entries())
      if (toolCalls.length > 1 && !tokenIds)
        throw templateRefusal(
          `writes one call of a message, and message ${index} has ${toolCalls.length}. Send each call in a message of its own, before its result`,
        );
    const template = tools ? this.#toolTemplate : this.#template;
    const parts = template.render(this.#format.variables, {
      ...{ documents: null, ...options.values },
      messages: known.map(messageOf),
      tools: described(tools),
      add_generation_prompt: options.addGenerationPrompt,
    });
    const written = turnsIn(parts, known, { channels: this.#channels, ends: this.#ends });
    const prompt: ConversationPrompt = { parts: [], slots: [], kept: [] };
    let at = 0;
    for (const [index, turn] of known.entries()) {
      const found = written[index];
      if (!found || turn.role !== 'assistant') continue;
      append(prompt.parts, parts.slice(at, found.start));
      at = found.end;
      const { tokenIds, toolCalls, reasoning } = turn;
      const isWhole = toolCalls.length > 0 && (!reasoning || found.last > found.start);
      if (tokenIds && isWhole) {
        append(prompt.parts, this.#asking);
        this.#addSampled(prompt, tokenIds, { isOpen: false, end: parts[found.end - 1] });
        continue;
      }
      if (tokenIds) prompt.kept.push(false);
      append(prompt.parts, parts.slice(found.start, found.last));
      if (hasPreamble(turn)) append(prompt.parts, this.#preamble(turn.content));
      append(prompt.parts, parts.slice(found.last, found.end));
    }
    append(prompt.parts, parts.slice(at));
    return prompt;
  }

  /** The ids of a reply, and the template's end if they have none. A reply that goes on has no end. */
  #addSampled(
    { parts, slots, kept }: ConversationPrompt,
    tokenIds: readonly number[],
    { isOpen, end }: { isOpen: boolean; end?: CodedPart | undefined },
  ): void {
    const hasEnd = this.#ends.has(tokenIds.at(-1) ?? -1);
    const tokens = isOpen && hasEnd ? tokenIds.slice(0, -1) : tokenIds;
    parts.push({ type: 'slot', index: slots.length });
    slots.push({ type: 'tokens', tokens, hasEnd: true });
    kept.push(true);
    if (end && !hasEnd) parts.push(end);
  }

  /** What is read of a sampled reply. */
  #read(tokenIds: readonly number[]): Pick<Turn, 'reasoning' | 'content' | 'toolCalls'> {
    const { endToken, otherEndTokens } = this.#format;
    const parser = new ReplyParser(this.#tokenizer, {
      endToken,
      format: { channels: this.#channels, mayCall: true, opening: [] },
      stops: { strings: [], tokens: otherEndTokens },
      show: { special: false, spaces: false, stop: false, reasoning: true },
      echo: '',
    });
    parser.push(tokenIds);
    parser.end({ finishReason: 'stop', stop: null });
    const { content, reasoning_content: reasoning, tool_calls: calls } = parser.message();
    const toolCalls = (calls ?? []).map(({ id, function: { name, arguments: text } }) => ({
      id,
      name,
      arguments: text,
    }));
    return { reasoning: reasoning ?? '', content: content ?? '', toolCalls };
  }

  #written(turn: Turn, index: number): CodedPart[] {
    if (turn.toolCalls.length > 0)
      throw templateRefusal(`cannot continue message ${index}, which has tool calls. Leave them out`);
    return coded(writtenChannels(turn, this.#channels, this.#format.endToken));
  }

  #preamble(text: string): CodedPart[] {
    const { start, channel, message, end } = this.#channels;
    return coded([start, 'assistant', channel, 'commentary', message, text, end]);
  }
}

/** The tools, each with a description: the published template refuses those that have none. */
const described = (tools: ExactJson): ExactJson =>
  Array.isArray(tools)
    ? tools.map((tool) => {
        const definition = tool instanceof Map ? tool.get('function') : undefined;
        if (!(tool instanceof Map && definition instanceof Map)) return tool;
        if (typeof definition.get('description') === 'string') return tool;
        return new Map(tool).set('function', new Map(definition).set('description', ''));
      })
    : tools;

const coded = (parts: readonly (string | number)[]): CodedPart[] =>
  parts.map((part) =>
    typeof part === 'number' ? { type: 'special', token: part } : { type: 'text', text: part },
  );

/** Whether a call has a text that the template does not take: beside reasoning it refuses one. */
const hasPreamble = ({ content, toolCalls, reasoning, tokenIds }: Turn): boolean =>
  toolCalls.length > 0 && content !== '' && (tokenIds !== undefined || Boolean(reasoning));

/** A message as the template expects it. Arguments of calls are values; those that are no JSON object stay texts. */
function messageOf(turn: Turn): Record<string, unknown> {
  const { role, content, toolCalls, reasoning, toolCallId, name } = turn;
  return {
    role,
    content: hasPreamble(turn) ? '' : content,
    ...(reasoning ? { thinking: reasoning, reasoning_content: reasoning } : {}),
    ...(toolCalls.length > 0
      ? {
          tool_calls: toolCalls.map((call) => {
            const value = exactJsonOf(call.arguments);
            const values = value instanceof Map ? value : call.arguments;
            return { id: call.id, type: 'function', function: { name: call.name, arguments: values } };
          }),
        }
      : {}),
    ...(toolCallId === undefined ? {} : { tool_call_id: toolCallId }),
    ...(name === undefined ? {} : { name }),
  };
}
