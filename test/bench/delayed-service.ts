import { createServer } from 'node:http';
import { text } from 'node:stream/consumers';

/**
 * A service in its own process: `delayed-service.ts MILLISECONDS [TURNS]`. It answers every POST with a chat completion
 * after the milliseconds, and every GET with the number of POSTs in flight. With TURNS, completions call the tool `look`
 * until the request has the results of TURNS - 1 calls. Prints its port. Ends with its standard input.
 */
const delayMs = Number(process.argv[2]);
const turns = Number(process.argv[3] ?? 1);
let inHand = 0;
const tokens = Array.from({ length: 32 }, (_, at) => at + 10);
const head = '{"id":"chatcmpl-1","object":"chat.completion","created":0,"model":"local/p/bench:step1",';
const usage = '"usage":{"prompt_tokens":64,"completion_tokens":32,"total_tokens":96}';

function completion(turn: number): string {
  const call = {
    id: `call-${turn}`,
    type: 'function',
    function: { name: 'look', arguments: '{"place":"desk"}' },
  };
  const isLast = turn + 1 >= turns;
  const choice = JSON.stringify({
    index: 0,
    message: isLast
      ? { role: 'assistant', content: 'an answer of thirty-two tokens, as good as any' }
      : { role: 'assistant', content: null, tool_calls: [call] },
    finish_reason: isLast ? 'stop' : 'tool_calls',
    logprobs: { content: tokens.map((token) => ({ token: `t${token}`, logprob: -0.5, top_logprobs: [] })) },
    token_ids: tokens,
  });
  // Each prompt continues the tokens of the turn before: its prompt, its reply, the result of its call.
  const result = [1, 2, 3, 4];
  const earlier = Array.from({ length: turn }, () => [...tokens, ...result]).flat();
  const prompt = [...Array.from({ length: 64 }, (_, at) => at + 100), ...earlier];
  return `${head}"choices":[${choice}],${usage},"prompt_token_ids":${JSON.stringify(prompt)}}`;
}

const bodies = Array.from({ length: turns }, (_, turn) => completion(turn));

/** Turns that the conversation of a request has had. */
const turnOf = (request: string) => Math.min(turns - 1, request.split(/"role":\s*"tool"/).length - 1);

const server = createServer({ keepAliveTimeout: 60_000 }, (request, response) => {
  if (request.method === 'GET') {
    response.end(String(inHand));
    return;
  }
  inHand++;
  response.once('close', () => inHand--);
  const answer = (body = '') =>
    setTimeout(() => {
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': body.length });
      response.end(body);
    }, delayMs);
  if (turns > 1)
    text(request).then(
      (sent) => answer(bodies[turnOf(sent)]),
      () => response.destroy(),
    );
  else {
    request.resume();
    request.once('end', () => answer(bodies[0]));
  }
});
server.listen({ port: 0, host: '127.0.0.1', backlog: 16_384 }, () => {
  const address = server.address();
  if (typeof address === 'object' && address) console.log(address.port);
});
process.stdin.resume().once('close', () => process.exit());
