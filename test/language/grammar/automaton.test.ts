import { describe, expect, it } from 'vitest';
import { grammarSource } from '../../../src/language/compiler/grammar-source.ts';
import { Automaton } from '../../../src/language/grammar/automaton.ts';
import { buildByteGraph, nodeKind } from '../../../src/language/grammar/byte-graph.ts';
import type { CodePointRange } from '../../../src/language/grammar/expression.ts';
import { StateMemory } from '../../../src/language/grammar/state-memory.ts';
import { utf8Sequences } from '../../../src/language/grammar/utf8-sequences.ts';

const graph = buildByteGraph(grammarSource({ type: 'json_object' }));

function accepts(automaton: Automaton, text: string): boolean {
  let state = automaton.start;
  for (const byte of Buffer.from(text)) {
    const next = state.step(byte);
    if (!next) return false;
    state = next;
  }
  return state.complete;
}

describe('the automaton', () => {
  it('gives texts with the same continuations the same state', () => {
    const automaton = new Automaton(graph);
    const reached = (text: string) => {
      let state = automaton.start;
      for (const byte of Buffer.from(text)) state = state.step(byte)!;
      return state;
    };
    expect(reached('{"a":"xyz')).toBe(reached('{"other":"'));
    expect(reached('{"a":[1,')).toBe(reached('{"b":[[],{},'));
    expect(reached('{"a":[1,')).not.toBe(reached('{"a":[[1,'));
  });

  it('refuses a rule that begins with itself', () => {
    const sums = new Automaton({
      nodes: {
        table: Int32Array.of(
          ...[nodeKind.return, 0, 0],
          ...[nodeKind.bytes, 0x6161, 0],
          ...[nodeKind.call, 3, 1],
          ...[nodeKind.split, 0, 2],
        ),
        targets: Int32Array.of(2, 1),
      },
      start: 3,
      exit: 0,
    });
    expect(() => sums.start).toThrow(expect.objectContaining({ code: 'grammar_invalid' }));
  });

  it('accepts the same texts when it drops its states repeatedly', () => {
    const automaton = new Automaton(graph, new StateMemory(), 3);
    for (let round = 0; round < 3; round++) {
      expect(accepts(automaton, '{"a":[1,{"b":null}],"c":"d\\n\u20ac"}')).toBe(true);
      expect(accepts(automaton, '{"a":[1,{"b":null}],"c":"d}')).toBe(false);
    }
  });
});

describe('the memory of states', () => {
  it('is released by the grammar that uses the most, not by others', () => {
    const memory = new StateMemory();
    const forgotten: string[] = [];
    const holderOf = (name: string) => {
      const holder = {
        clear: () => {
          forgotten.push(name);
          memory.release(holder);
        },
      };
      return holder;
    };
    const [light, heavy, other] = [holderOf('light'), holderOf('heavy'), holderOf('other')];
    memory.hold(light, 100);
    for (let state = 0; state < 200; state++) {
      memory.hold(heavy, 5000);
      memory.hold(other, 500);
    }
    expect(new Set(forgotten)).toEqual(new Set(['heavy']));
  });

  it('is released although a reply keeps a state: the state drops the states after it', () => {
    const automaton = new Automaton(graph);
    const { start } = automaton;
    const before = start.step(0x7b);
    automaton.clear();
    expect(start.step(0x7b)).not.toBe(before);
    expect(start.step(0x7b)?.complete).toBe(before?.complete);
  });

  it('refuses a grammar in which one character leads to too many nodes', () => {
    const pattern = `(${'(a?){0,9000}'.repeat(3)})`;
    expect(() => new Automaton(buildByteGraph(grammarSource({ type: 'regex', pattern }))).start).toThrow(
      expect.objectContaining({ code: 'grammar_too_complex' }),
    );
  });
});

describe('UTF-8 ranges', () => {
  it.each<CodePointRange[]>([
    [[0, 0x10ffff]],
    [[0x61, 0x7a]],
    [[0x7e, 0x801]],
    [[0xfff, 0x10001]],
    [[0xd7ff, 0xe000]],
  ])('spell exactly the code points of %j', ([first, last]) => {
    const sequences = utf8Sequences([first, last]);
    const spelled = (code: number) => {
      const bytes = Buffer.from(String.fromCodePoint(code));
      return sequences.filter(
        (ranges) =>
          ranges.length === bytes.length &&
          ranges.every(([low, high], index) => low <= bytes[index]! && bytes[index]! <= high),
      ).length;
    };
    for (let code = 0; code <= 0x10ffff; code += code < 0x11000 ? 1 : 997) {
      if (code >= 0xd800 && code <= 0xdfff) continue;
      const expected = first <= code && code <= last ? 1 : 0;
      if (spelled(code) !== expected) expect.fail(`U+${code.toString(16)} has ${spelled(code)} spellings`);
    }
  });
});
