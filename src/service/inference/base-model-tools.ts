import type { Engine } from '../../engines/engine.ts';
import { ConversationRenderer } from '../../language/chat/render.ts';
import type { ChatFormat, Tokenizer } from '../../language/tokenizer/tokenizer.ts';
import { TokenTexts } from './reply/token-report.ts';

/** Turns the messages of a base model into tokens and back. */
export interface BaseModelTools {
  tokenizer: Tokenizer;
  format: ChatFormat;
  renderer: ConversationRenderer;
  texts: TokenTexts;
}

/** Creates the tools of a base model on first use and keeps them with their caches. */
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
        renderer: new ConversationRenderer(tokenizer, format),
        texts: new TokenTexts(tokenizer),
      };
      known.set(baseModel, tools);
    }
    return tools;
  };
}
