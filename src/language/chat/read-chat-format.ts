import { messageOf } from '../../util/error.ts';
import { isObject } from '../../util/json.ts';
import type { ReplyStyles } from '../call-forms.ts';
import { findText, JsonFields, unsupported } from '../tokenizer/json-fields.ts';
import { filesOf, type ModelFiles } from '../tokenizer/model-files.ts';
import type { CallStyle, ChatFormat, ReasoningTags, Tokenizer } from '../tokenizer/tokenizer.ts';
import { foundChannels } from './channel-format.ts';
import { type GivenTemplate, sourceOf } from './chat-templates.ts';
import { CodedTemplate } from './coded-template.ts';
import { foundCalls } from './found-calls.ts';
import { calledReply, difference, headerOf, probes } from './template-replies.ts';

const templateFile = 'chat_template.jinja';
const configFile = 'tokenizer_config.json';

/**
 * Reads the chat format of a checkpoint's folder: its template (`chat_template.jinja`, else `chat_template` of
 * `tokenizer_config.json`), and the tokens that end a reply (`eos_token_id` of `generation_config.json`, else of
 * `config.json`, and the tokenizer's `eos_token`).
 *
 * @param given A template in place of the checkpoint's own.
 * @throws LanguageError (`checkpoint_unsupported`, `bad_checkpoint`) that names the file, the field and its value, also if
 * the folder has no template, or one that does not end replies with such a token.
 */
export function readChatFormat(
  source: string | ModelFiles,
  tokenizer: Tokenizer,
  { toolCalls, reasoning }: ReplyStyles = {},
  given?: GivenTemplate,
): ChatFormat {
  const files = filesOf(source);
  const config = JsonFields.find(files, configFile);
  const { template, toolTemplate, from } = given
    ? { template: sourceOf(given, tokenizer), toolTemplate: null, from: given.name }
    : templatesOf(files, config);
  const variables = specialTexts(config);
  const ends = endTokensOf(files, tokenizer, variables.eos_token);
  const { coded, shown, question, asked, answered } = naming(from, () => {
    const texts = Object.values(variables);
    const coded = new CodedTemplate(template, tokenizer.added, texts);
    const shown = toolTemplate === null ? coded : new CodedTemplate(toolTemplate, tokenizer.added, texts);
    return { coded, shown, ...probes(coded, variables) };
  });
  const endToken = endTokenOf({ question, answered }, { ends, folder: files.path });
  const common = {
    template,
    templateFrom: given?.name ?? 'checkpoint',
    toolTemplate,
    variables,
    beginToken: beginTokenOf(files, tokenizer),
    endToken,
    otherEndTokens: ends.filter((token) => token !== endToken),
  };
  const channels = foundChannels(difference(answered, question) ?? [], tokenizer);
  if (channels) {
    refuseStyles({ toolCalls, reasoning }, from);
    return { ...common, calls: null, reasoning: null, channels };
  }
  const prompt = asked
    .map((part) => (part.type === 'text' ? part.text : tokenizer.text(part.token)))
    .join('');
  const probed = [shown, variables, true] as const;
  const { calls, unread } = foundCalls(toolCalls, template + (toolTemplate ?? ''), tokenizer, (reply) =>
    calledReply(
      reply,
      headerOf(coded, variables),
      new Set([endToken, ...ends]),
      (token) => tokenizer.text(token),
      ...probed,
    ),
  );
  const thought = foundReasoning(template, prompt, reasoning);
  return {
    ...common,
    calls: calls && { ...calls, tokens: tokensOf(calls.tags, tokenizer) },
    ...(unread === undefined ? {} : { unreadCall: unread }),
    reasoning: thought && { ...thought, tokens: tagTokens(thought, tokenizer) },
  };
}

/** Channels leave no choice of how calls and reasoning are written. */
function refuseStyles(styles: ReplyStyles, from: string): void {
  for (const [name, style] of Object.entries(styles))
    if (style !== undefined)
      throw unsupported(
        `The style of ${name === 'toolCalls' ? 'tool calls' : name} is ${style}, but ${from} writes replies in channels, as gpt-oss does, where calls and reasoning have one form. Leave it out.`,
      );
}

function tagTokens(
  { open, close }: { open: string; close: string },
  { added }: Tokenizer,
): ReasoningTags['tokens'] {
  const [first, last] = [added.get(open), added.get(close)];
  return first === undefined || last === undefined ? null : { open: first, close: last };
}

const tokensOf = (tags: readonly string[], { added }: Tokenizer): CallStyle['tokens'] =>
  Object.fromEntries(
    tags.flatMap((tag) => {
      const token = added.get(tag);
      return token === undefined ? [] : [[tag, token]];
    }),
  );

function foundReasoning(
  template: string,
  prompt: string,
  style: ReplyStyles['reasoning'],
): Omit<ReasoningTags, 'tokens'> | null {
  const [open, close] = ['<think>', '</think>'];
  if (style === 'none' || (style === undefined && !template.includes(close))) return null;
  // Line breaks in the template's source, mostly escaped in a text.
  const breaksAfter = (tag: string) =>
    Array.from(template.matchAll(new RegExp(`${tag}((?:\\\\n|\n)+)`, 'g')), ([, found = '']) =>
      found.replaceAll('\\n', '\n'),
    ).sort((one, other) => one.length - other.length);
  return {
    open,
    close,
    afterOpen: breaksAfter(open)[0] ?? '\n',
    afterClose: breaksAfter(close).at(-1) ?? '\n\n',
    opened: prompt.lastIndexOf(open) > prompt.lastIndexOf(close),
  };
}

/** Runs the templates of a file for the first time. */
function naming<Result>(file: string, run: () => Result): Result {
  try {
    return run();
  } catch (cause) {
    throw unsupported(`${file}: the chat template cannot be used. ${messageOf(cause)}`, { cause });
  }
}

function templatesOf(
  files: ModelFiles,
  config: JsonFields | undefined,
): Pick<ChatFormat, 'template' | 'toolTemplate'> & { from: string } {
  const text = findText(files, templateFile);
  if (text !== null) {
    const tools = findText(files, 'additional_chat_templates/tool_use.jinja');
    return { template: text, toolTemplate: tools, from: files.pathOf(templateFile) };
  }
  const from = files.pathOf(configFile);
  const value = config?.get('chat_template');
  if (typeof value === 'string') return { template: value, toolTemplate: null, from };
  const named = new Map<unknown, unknown>(
    Array.isArray(value) ? value.filter(isObject).map(({ name, template }) => [name, template]) : [],
  );
  const [template, tools] = [named.get('default'), named.get('tool_use')];
  if (typeof template === 'string')
    return { template, toolTemplate: typeof tools === 'string' ? tools : null, from };
  if (config && value !== undefined)
    throw config.wrong('chat_template', 'a template, or a list of templates with one named default');
  throw unsupported(
    `${files.path} has no chat template: neither ${templateFile} nor chat_template in ${configFile}. Take an instruct model, or give a template with --chat-template.`,
  );
}

/** The special tokens that templates get as variables. */
function specialTexts(config: JsonFields | undefined): Record<string, string> {
  const texts: Record<string, string> = {};
  for (const name of ['bos_token', 'eos_token', 'unk_token', 'pad_token']) {
    const value = config?.get(name);
    const text = (isObject(value) ? value.content : value) ?? undefined;
    if (typeof text === 'string') texts[name] = text;
    else if (config && text !== undefined) throw config.wrong(name, 'the text of a token');
  }
  return texts;
}

/** All tokens that end a reply. */
function endTokensOf(files: ModelFiles, tokenizer: Tokenizer, eosText: string | undefined): number[] {
  const configs = ['generation_config.json', 'config.json'].map((name) => JsonFields.find(files, name));
  const file = configs.find((candidate) => candidate?.get('eos_token_id') !== undefined);
  const ids = new Set(file?.tokens('eos_token_id'));
  if (file && [...ids].some((id) => id >= tokenizer.vocabularySize))
    throw file.wrong('eos_token_id', `ids below ${tokenizer.vocabularySize}, which the tokenizer has`);
  const eos = eosText === undefined ? undefined : tokenizer.added.get(eosText);
  if (eos !== undefined) ids.add(eos);
  return [...ids];
}

/** The token that the template writes after a reply. */
function endTokenOf(
  { question, answered }: Pick<ReturnType<typeof probes>, 'question' | 'answered'>,
  { ends, folder }: { ends: readonly number[]; folder: string },
): number {
  const reply = difference(answered, question) ?? [];
  const answer = reply.findIndex((part) => part.type === 'text' && part.text.includes('answer'));
  const end = reply.slice(answer).find((part) => part.type === 'special');
  if (answer >= 0 && end?.type === 'special' && ends.includes(end.token)) return end.token;
  const listed = ends.length === 0 ? 'there is none' : `those are ${ends.join(', ')}`;
  throw unsupported(
    `${folder}: the chat template ends a reply with ${end?.type === 'special' ? `token ${end.token}` : 'no special token'}, which is not an end token (${listed}). Name it in eos_token_id of generation_config.json.`,
  );
}

/** The token that the tokenizer itself puts before a text: a `TemplateProcessing` of `tokenizer.json`. */
function beginTokenOf(files: ModelFiles, tokenizer: Tokenizer): number | null {
  const file = JsonFields.read(files, 'tokenizer.json');
  const processor = file.get('post_processor');
  const steps =
    isObject(processor) && Array.isArray(processor.processors) ? processor.processors : [processor];
  for (const step of steps) {
    const [first] = isObject(step) && Array.isArray(step.single) ? step.single : [];
    const token = isObject(first) && isObject(first.SpecialToken) ? first.SpecialToken.id : undefined;
    if (typeof token === 'string') return tokenizer.added.get(token) ?? null;
  }
  return null;
}
