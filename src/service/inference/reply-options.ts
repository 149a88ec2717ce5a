import {
  argumentTypes,
  type ChannelFormat,
  type Constraint,
  endsInReasoning,
  hasContentGrammar,
  openingOf,
  type ReplyFormat,
  type ReplyOptions,
} from '../../language/index.ts';
import type { ChatRequest } from './chat-request.ts';
import type { Prompt } from './prompt.ts';
import type { BaseModelTools } from './resolve-model.ts';

interface ReplyContext {
  tools: BaseModelTools;
  prompt: Prompt;
  constraint: Constraint | null;
}

/** How the replies end, and how they are read. */
export function toReplyOptions(request: ChatRequest, context: ReplyContext): ReplyOptions {
  const { format } = context.tools;
  const last = context.prompt.turns.at(-1);
  const { stop = [], stop_token_ids: stopTokens = [] } = request;
  return {
    endToken: format.endToken,
    format: replyFormatOf(request, context),
    stops: {
      strings: typeof stop === 'string' ? [stop] : stop,
      tokens: [...stopTokens, ...(request.ignore_eos ? [] : format.otherEndTokens)],
    },
    show: {
      special: request.skip_special_tokens === false,
      spaces: request.spaces_between_special_tokens !== false,
      stop: request.include_stop_str_in_output === true,
      reasoning: request.include_reasoning !== false,
    },
    echo: request.echo && last?.role === 'assistant' ? last.content : '',
  };
}

/** How the reasoning and the calls of a reply are written; null if it has neither. */
function replyFormatOf(
  { tools: functions, tool_choice: choice, function_call: older }: ChatRequest,
  { tools: { tokenizer, format }, prompt, constraint }: ReplyContext,
): ReplyFormat | ChannelFormat | null {
  const mayCall = (functions?.length ?? 0) > 0 && (choice ?? older) !== 'none';
  const { channels } = format;
  if (channels) return { channels, mayCall, opening: openingOf(prompt.tokens, channels) };
  const calls = mayCall ? format.calls : null;
  const reasoning = format.reasoning && {
    ...format.reasoning,
    opened: endsInReasoning(prompt.tokens, format.reasoning, tokenizer),
  };
  const callsFirst = hasContentGrammar(constraint);
  const typesOf = (name: string, argument: string) => {
    const called = functions?.find((tool) => tool.function.name === name);
    return argumentTypes(called?.function.parameters ?? {}, argument);
  };
  return calls || reasoning ? { calls, typesOf, callsFirst, reasoning } : null;
}
