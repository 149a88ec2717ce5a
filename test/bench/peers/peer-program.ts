import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';

const failure = z.object({ error: z.string() });

/**
 * A Python program of this folder that measures on request, so that it is warm and its measurements can alternate with
 * ours: each request is a line of JSON to its standard input, each answer a line of JSON from its standard output.
 */
export class PeerProgram implements AsyncDisposable {
  readonly #name: string;
  readonly #child: ChildProcessByStdio<Writable, Readable, Readable>;
  readonly #answers: AsyncIterator<string>;
  #errors = '';

  constructor(python: string, name: string, args: readonly string[]) {
    this.#name = name;
    const path = fileURLToPath(new URL(name, import.meta.url));
    this.#child = spawn(python, [path, ...args], { stdio: ['pipe', 'pipe', 'pipe'] });
    this.#child.stderr.setEncoding('utf8').on('data', (text: string) => {
      this.#errors = (this.#errors + text).slice(-4000);
    });
    // The end of the answers says that the program died.
    this.#child.stdin.on('error', () => undefined);
    this.#answers = createInterface(this.#child.stdout)[Symbol.asyncIterator]();
  }

  /** Throws if the program cannot do this work, or has died. */
  async ask<Answer>(request: object, answer: z.ZodType<Answer>): Promise<Answer> {
    this.#child.stdin.write(`${JSON.stringify(request)}\n`);
    return await this.hear(answer);
  }

  /** What the program says next. Throws as `ask` does. */
  async hear<Answer>(answer: z.ZodType<Answer>): Promise<Answer> {
    const { value, done } = await this.#answers.next();
    if (done) throw new Error(`${this.#name} ended: ${this.#errors}`);
    const told: unknown = JSON.parse(value);
    const failed = failure.safeParse(told);
    if (failed.success) throw new Error(`${this.#name}: ${failed.data.error}`);
    return answer.parse(told);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    this.#child.stdin.end();
    await once(this.#child, 'exit');
  }
}
