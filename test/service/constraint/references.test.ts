import { describe, expect, test } from 'vitest';
import { argumentsSchema } from '../../../src/language/constraint/arguments-schema.ts';
import { SchemaRoom } from '../../../src/language/constraint/schema-size.ts';
import { start } from '../harness.ts';

const toolOf = (parameters: unknown) => ({ type: 'function', function: { name: 'go', parameters } });

/** A name in its spellings as part of a URI: any of its letters may be percent-encoded. */
const spelling = (name: string, mask: number) =>
  [...name]
    .map((letter, index) => ((mask >> index) & 1 ? `%${letter.charCodeAt(0).toString(16)}` : letter))
    .join('');

/** Schemas in each other, each of them referred to, around one that is long. */
function nested({ depth, inner, references }: { depth: number; inner: unknown[]; references: number }) {
  let schema: unknown = { anyOf: [{ type: 'string' }, ...inner] };
  for (let level = 0; level < depth; level++) schema = { anyOf: [{ type: 'null' }, schema] };
  const places = Array.from({ length: references }, (_, level) => ({
    $ref: `#/$defs/a${'/anyOf/1'.repeat(level)}`,
  }));
  return { anyOf: places, $defs: { a: schema } };
}

describe('references of the parameters of a tool', () => {
  test('are narrowed once for each schema that they lead to, however they are spelled', () => {
    const name = 'abcdefghijkl';
    const spellings = Array.from({ length: 1000 }, (_, mask) => ({
      $ref: `#/$defs/${spelling(name, mask)}`,
    }));
    const maybe = { anyOf: [{ type: 'object' }, { type: 'string' }, ...spellings] };
    const parameters = { $ref: `#/$defs/${name}`, $defs: { [name]: maybe } };
    const narrowed = argumentsSchema(parameters);
    expect(JSON.stringify(narrowed).length).toBeLessThan(2 * JSON.stringify(parameters).length);
    expect(narrowed).toMatchObject({ $ref: '#/$defs/objects/0', $defs: { objects: [{ anyOf: [{}] }] } });
  });

  test.each<[what: string, parameters: unknown, says: RegExp]>([
    [
      'make more of one schema than a constraint may have',
      nested({ depth: 60, inner: [{ properties: { ['n'.repeat(100_000)]: {} } }], references: 60 }),
      /references make more than 1048576 characters/,
    ],
    [
      'lead through one schema more often than there is time for',
      nested({ depth: 60, inner: Array(9000).fill(false), references: 60 }),
      /more than 131072 steps/,
    ],
  ])('are refused where they %s', async (_what, parameters, says) => {
    const { chat, engine } = await start();
    const { status, body } = await chat({ tools: [toolOf({}), toolOf(parameters)] });
    expect([status, body.detail[0].loc.join('.')]).toEqual([422, 'body.tools.1.function.parameters']);
    expect(body.detail[0].msg).toMatch(says);
    expect(engine.requests).toEqual([]);
  });

  test('of all tools of a request have the room of one', () => {
    const parameters = nested({
      ...{ depth: 20, references: 20 },
      inner: [{ properties: { ['n'.repeat(4000)]: {} } }],
    });
    const room = new SchemaRoom();
    expect(argumentsSchema(parameters, { room })).not.toBe(parameters);
    const many = () => {
      for (let tool = 0; tool < 60; tool++) argumentsSchema(parameters, { room, location: ['tools', tool] });
    };
    expect(many).toThrow(/^body\.tools\.\d+: its references make more than 1048576/);
  });
});
