/** Items of a response's output, in the words of the Responses API. */
export interface ReasoningItem {
  id: string;
  type: 'reasoning';
  status: ItemStatus;
  summary: [];
  content: { type: 'reasoning_text'; text: string }[];
  /** Carries the text for clients that keep nothing else of an item; there where it was asked for. */
  encrypted_content?: string;
}

export interface MessageItem {
  id: string;
  type: 'message';
  status: ItemStatus;
  role: 'assistant';
  content: { type: 'output_text'; text: string; annotations: []; logprobs: [] }[];
}

export interface FunctionCallItem {
  id: string;
  type: 'function_call';
  status: ItemStatus;
  call_id: string;
  name: string;
  arguments: string;
}

export type ItemStatus = 'in_progress' | 'completed' | 'incomplete';
export type OutputItem = ReasoningItem | MessageItem | FunctionCallItem;

export const encodeReasoning = (text: string): string => Buffer.from(text, 'utf8').toString('base64');
export const decodeReasoning = (encoded: string): string => Buffer.from(encoded, 'base64').toString('utf8');
