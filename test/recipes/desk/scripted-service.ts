import type { ChatCompletion, ChatCompletionRequest, ResponseMessage } from '../../../src/contract/index.ts';
import { startServer } from '../../support/http-server.ts';

export interface ScriptedService {
  url: string;
  /** Bodies of the chat requests so far. */
  requests: ChatCompletionRequest[];
  close: () => Promise<void>;
}

export const says = (content: string): ResponseMessage => ({ role: 'assistant', content });

export const calls = (name: string, order: string): ResponseMessage => ({
  role: 'assistant',
  content: null,
  tool_calls: [
    { id: `call-${name}`, type: 'function', function: { name, arguments: `{"order":"${order}"}` } },
  ],
});

const completion = (message: ResponseMessage): ChatCompletion => ({
  id: 'chat-1',
  object: 'chat.completion',
  created: 0,
  model: 'local/desk/clerk:step1',
  choices: [
    { index: 0, message, finish_reason: message.tool_calls ? 'tool_calls' : 'stop', token_ids: [1, 2, 3] },
  ],
  usage: { prompt_tokens: 1, completion_tokens: 3, total_tokens: 4 },
  prompt_token_ids: [0],
});

/** Answers chat completions with these messages, in order. */
export async function startScriptedService(script: ResponseMessage[]): Promise<ScriptedService> {
  const requests: ChatCompletionRequest[] = [];
  const { url, close } = await startServer(async (request, response) => {
    let text = '';
    for await (const chunk of request) text += chunk;
    requests.push(JSON.parse(text));
    const message = script[requests.length - 1];
    response.writeHead(message ? 200 : 400, { 'content-type': 'application/json' });
    response.end(JSON.stringify(message ? completion(message) : { detail: 'The script is over.' }));
  });
  return { url, requests, close };
}
