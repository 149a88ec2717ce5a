export * from './basics.ts';
export { writtenCalls } from './chat/call-text.ts';
export { openingOf, writtenChannels } from './chat/channel-format.ts';
export type { ChannelFormat } from './chat/channel-reader.ts';
export { chatTemplateNames, type GivenTemplate } from './chat/chat-templates.ts';
export { CodedTemplate } from './chat/coded-template.ts';
export { endsInReasoning } from './chat/prompt-reasoning.ts';
export { type Language, openLanguage, readLanguage, type SharedLanguage } from './chat/read-language.ts';
export { ConversationRenderer, type RenderOptions } from './chat/render.ts';
export { type ReplyDelta, type ReplyOptions, ReplyParser } from './chat/reply-parser.ts';
export type { ReplyFormat } from './chat/reply-reader.ts';
export { StopStrings } from './chat/stop-strings.ts';
export { contentLocation } from './constraint/content-grammar.ts';
export {
  type ConstraintFields,
  hasContentGrammar,
  hashConstraint,
  toConstraint,
} from './constraint/request-constraint.ts';
export { renderWith, toTemplateValues } from './extensions/request-template/request-template.ts';
export type { Constraint, Grammar, JsonSchema, Reply } from './grammar/constraint.ts';
export { argumentTypes } from './grammar/json/argument-types.ts';
export { maxConstraintLength, toolsJson } from './grammar/limits.ts';
export { compareVocabularies, type VocabularyDifference } from './tokenizer/compare-vocabularies.ts';
export { JsonFields } from './tokenizer/json-fields.ts';
export { folderFiles, type ModelFiles } from './tokenizer/model-files.ts';
