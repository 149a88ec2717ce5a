import { createServer } from 'node:http';

/**
 * A service in its own process. It answers every POST with a chat completion after the milliseconds of its argument,
 * and every GET with the number of POSTs in flight. Prints its port. Ends with its standard input.
 */
const delayMs = Number(process.argv[2]);
let inHand = 0;
const tokens = Array.from({ length: 32 }, (_, at) => at + 10);
const head = '{"id":"chatcmpl-1","object":"chat.completion","created":0,"model":"local/p/bench:step1",';
const choice = JSON.stringify({
  index: 0,
  message: { role: 'assistant', content: 'an answer of thirty-two tokens, as good as any' },
  finish_reason: 'stop',
  logprobs: { content: tokens.map((token) => ({ token: `t${token}`, logprob: -0.5, top_logprobs: [] })) },
  token_ids: tokens,
});
const usage = '"usage":{"prompt_tokens":64,"completion_tokens":32,"total_tokens":96}';
const prompt = JSON.stringify(Array.from({ length: 64 }, (_, at) => at + 100));
const body = `${head}"choices":[${choice}],${usage},"prompt_token_ids":${prompt}}`;

const server = createServer({ keepAliveTimeout: 60_000 }, (request, response) => {
  if (request.method === 'GET') {
    response.end(String(inHand));
    return;
  }
  inHand++;
  response.once('close', () => inHand--);
  request.resume();
  request.once('end', () =>
    setTimeout(() => {
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': body.length });
      response.end(body);
    }, delayMs),
  );
});
server.listen({ port: 0, host: '127.0.0.1', backlog: 16_384 }, () => {
  const address = server.address();
  if (typeof address === 'object' && address) console.log(address.port);
});
process.stdin.resume().once('close', () => process.exit());
