// llama.cpp decodes: `llama_decode.mjs <folder of its packages> <model.gguf> <threads>`. A line of input is a request,
// {"batch": 8, "prompt": [1, 2, 3], "reply": 64}; a line of output its answer, {"tokensPerSecond": 80.5, "peakBytes": 1e9}:
// sampled tokens per second after the prompts, or {"error": "..."}.
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';

const [folder = '', modelPath, threads] = process.argv.slice(2);
const { getLlama } = await import(
  pathToFileURL(join(folder, 'node_modules/node-llama-cpp/dist/index.js')).href
);
const llama = await getLlama({ gpu: false, build: 'never', logLevel: 'error', maxThreads: Number(threads) });
const model = await llama.loadModel({ modelPath });

async function decode({ batch, prompt, reply }) {
  const contextSize = prompt.length + reply + 8;
  const context = await model.createContext({
    sequences: batch,
    contextSize,
    batchSize: 512,
    threads: Number(threads),
  });
  const firsts = [];
  let ended = 0;
  await Promise.all(
    Array.from({ length: batch }, async (_, number) => {
      const sequence = context.getSequence();
      // Another token at the beginning, so that no two sequences are alike.
      const tokens = sequence.evaluate([prompt[number % prompt.length], ...prompt], {
        temperature: 1,
        yieldEogToken: true,
        seed: number + 1,
      });
      for (let sampled = 0; sampled < reply; sampled++) {
        const { done } = await tokens.next();
        if (done) throw new Error(`a reply ended after ${sampled} tokens`);
        if (sampled === 0) firsts.push(performance.now());
      }
      ended = performance.now();
    }),
  );
  await context.dispose();
  return (batch * (reply - 1) * 1000) / (ended - Math.max(...firsts));
}

for await (const line of createInterface(process.stdin)) {
  let answer;
  try {
    const tokensPerSecond = await decode(JSON.parse(line));
    answer = { tokensPerSecond, peakBytes: process.resourceUsage().maxRSS * 1024 };
  } catch (error) {
    answer = { error: String(error) };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
process.exit(0);
