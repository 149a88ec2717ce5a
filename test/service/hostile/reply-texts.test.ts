import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { BannedTexts } from '../../../src/engines/embedded/extensions/banned-texts.ts';
import { PrefixMatcher, StopFilter } from '../../../src/language/chat/stop-strings.ts';

const letters = fc.string({ unit: fc.constantFrom('a', 'b'), minLength: 1, maxLength: 8 });

describe('texts that are searched for in a reply', () => {
  it('are found as by a search from every position', () => {
    fc.assert(
      fc.property(letters, fc.array(letters, { maxLength: 6 }), (text, read) => {
        const matcher = new PrefixMatcher(text);
        const all = read.join('');
        for (let end = 1; end <= all.length; end++) {
          matcher.read(all.charCodeAt(end - 1));
          const lengths = Array.from({ length: text.length + 1 }, (_, length) => length);
          const longestMatch = lengths.findLast((length) =>
            all.slice(0, end).endsWith(text.slice(0, length)),
          );
          expect(matcher.matched).toBe(longestMatch);
        }
      }),
      { seed: 20261121, numRuns: 2000 },
    );
  });

  it('may nearly match many times without a cost for each', () => {
    // A search that tried each prefix of each text after each token took minutes.
    const near = Array.from({ length: 63 }, (_, at) => `${'a'.repeat(400 + at)}b${'a'.repeat(600 - at)}`);
    const filter = new StopFilter([...near, `${'a'.repeat(1023)}b`]);
    for (let token = 0; token < 20_000; token++) filter.push([{ type: 'text', text: 'a' }]);
    const tokens = Array.from({ length: 512 }, (_, token) => String.fromCharCode(97 + (token % 26)));
    const banned = new BannedTexts(
      Array.from({ length: 256 }, (_, at) => `${'a'.repeat(200 + (at % 50))}b`),
      tokens,
    );
    const reply = Array(1000).fill(0);
    for (let step = 0; step < 500; step++) {
      const admits = banned.allowedAfter(reply, 0, reply.length);
      expect(tokens.filter((_, token) => !admits(token)).every((text) => text === 'b')).toBe(true);
    }
  });

  it('are banned if a token of one or more letters would complete one', () => {
    const tokens = ['a', 'b', 'ab', 'ba', 'aab', 'bbb', 'abab'];
    fc.assert(
      fc.property(
        fc.array(letters, { minLength: 1, maxLength: 3 }),
        fc.array(fc.nat(tokens.length - 1), { maxLength: 6 }),
        (texts, reply) => {
          const said = reply.map((token) => tokens[token]).join('');
          const admits = new BannedTexts(texts, tokens).allowedAfter(reply, 0, reply.length);
          for (const [token, bytes] of tokens.entries()) {
            const completes = texts.some((text) =>
              (said + bytes).includes(text, Math.max(0, said.length - text.length + 1)),
            );
            expect(admits(token)).toBe(!completes);
          }
        },
      ),
      { seed: 20261121, numRuns: 1000 },
    );
  });
});
