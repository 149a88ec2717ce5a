import { describe, expect, test } from 'vitest';
import { withoutNotes } from '../../../src/language/constraint/schema-notes.ts';
import { start } from '../harness.ts';

const described = {
  title: 'Order',
  description: 'what is ordered',
  type: 'object',
  properties: {
    title: { type: 'string', description: 'of the book', default: 'none' },
    description: {
      title: 'd',
      $comment: 'c',
      anyOf: [{ type: 'null', title: 'n' }, { const: { title: 'x' } }],
    },
    kind: { enum: [{ description: 'kept' }], examples: [1] },
    list: { type: 'array', items: { type: 'integer', example: 3 } },
  },
  required: ['title'],
  $defs: { a: { type: 'string', title: 'a' } },
};
const plain = {
  type: 'object',
  properties: {
    title: { type: 'string' },
    description: { anyOf: [{ type: 'null' }, { const: { title: 'x' } }] },
    kind: { enum: [{ description: 'kept' }] },
    list: { type: 'array', items: { type: 'integer' } },
  },
  required: ['title'],
  $defs: { a: { type: 'string' } },
};

describe('what a schema says to people', () => {
  test('is not part of a constraint; names and values that look like it are', () => {
    expect(withoutNotes(described)).toEqual(plain);
    expect(withoutNotes(plain)).toBe(plain);
  });

  test('stays where a reference may lead into it', () => {
    const schema = { title: 't', $ref: '#/default', default: { type: 'object', title: 'u' } };
    expect(withoutNotes(schema)).toEqual({ $ref: '#/default', default: { type: 'object', title: 'u' } });
  });

  test('makes no other constraint, and no further entry in the store', async () => {
    const { chat, engine } = await start();
    const hashes = new Set<string>();
    for (const schema of [described, plain, { ...plain, description: 'more' }]) {
      const format = { type: 'json_schema', json_schema: { name: 'n', schema } };
      hashes.add((await chat({ response_format: format })).body.choices[0].sampling.constraint);
      hashes.add((await chat({ structured_outputs: { json: schema } })).body.choices[0].sampling.constraint);
    }
    expect([...hashes]).toEqual([expect.stringMatching(/^sha256-/)]);
    expect(engine.requests[0]?.constraint?.branches[0]?.grammar).toEqual({
      type: 'json_schema',
      schema: plain,
    });
  });
});
