// What llama.cpp makes of texts: `llama.mjs <folder of its packages> <model.gguf> [adapter.gguf]`. Reads JSON, a list of
// prompts `{ text, tokens }`; writes a list of `{ tokens, reply }`: those of the text, and the greedy reply after `tokens`.
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { pathToFileURL } from 'node:url';

const [folder = '', modelPath, filePath] = process.argv.slice(2);
const { getLlama } = await import(
  pathToFileURL(join(folder, 'node_modules/node-llama-cpp/dist/index.js')).href
);
// Threads wait for each other many times a token, so more of them than cores stand still.
const llama = await getLlama({ gpu: false, build: 'never', logLevel: 'error', maxThreads: 2 });
const model = await llama.loadModel({ modelPath });
const context = await model.createContext({
  contextSize: 512,
  ...(filePath ? { lora: { adapters: [{ filePath }] } } : {}),
});
const results = [];
for (const prompt of JSON.parse(await text(process.stdin))) {
  const sequence = context.getSequence();
  const sampled = [];
  const generation = sequence.evaluate(prompt.tokens, { temperature: 0 });
  while (sampled.length < 24) {
    const { value, done } = await generation.next();
    if (done) break;
    sampled.push(value);
  }
  sequence.dispose();
  results.push({ tokens: model.tokenize(prompt.text, true), reply: model.detokenize(sampled) });
}
process.stdout.write(JSON.stringify(results), () => process.exit(0));
