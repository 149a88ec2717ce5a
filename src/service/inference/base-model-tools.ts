import type { Engine } from '../../engines/engine.ts';
import { ConversationRenderer } from '../../language/chat/render.ts';
import { TemplateRunner } from '../../language/extensions/request-template/template-runner.ts';
import type { ChatFormat, Tokenizer } from '../../language/tokenizer/tokenizer.ts';
import { TokenTexts } from './reply/token-texts.ts';

/** What turns the messages of one base model into tokens and back. */
export interface BaseModelTools {
  tokenizer: Tokenizer;
  format: ChatFormat;
  renderer: ConversationRenderer;
  texts: TokenTexts;
}

// One for all services of a process: it costs a process of its own.
const templateRunner = new TemplateRunner();

/** Makes the tools of a base model when they are first needed, and keeps them with their caches. */
export function baseModelTools(
  engine: Pick<Engine, 'tokenizer' | 'chatFormat'>,
): (baseModel: string) => BaseModelTools {
  const known = new Map<string, BaseModelTools>();
  return (baseModel) => {
    let tools = known.get(baseModel);
    if (!tools) {
      const tokenizer = engine.tokenizer(baseModel);
      const format = engine.chatFormat(baseModel);
      tools = {
        tokenizer,
        format,
        renderer: new ConversationRenderer(tokenizer, format, templateRunner),
        texts: new TokenTexts(tokenizer),
      };
      known.set(baseModel, tools);
    }
    return tools;
  };
}
