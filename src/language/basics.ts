/**
 * What needs neither templates nor grammars, as a second door: the harness, the command line and the service's threads for
 * bodies come through it, and start without the rest.
 */
export { type ReplyStyles, replyStyles, tagOf } from './call-forms.ts';
export {
  type Conversation,
  charactersIn,
  choiceToTurn,
  type Turn,
  type TurnToolCall,
  toTurn,
} from './chat/conversation.ts';
export { bodyPath, LanguageError, type Location } from './error.ts';
export { unenforcedOf } from './grammar/json/keywords.ts';
export { References } from './grammar/json/references.ts';
export {
  type Channels,
  type ChatFormat,
  replyTokens,
  type Tokenizer,
  tokenIdsHash,
} from './tokenizer/tokenizer.ts';
