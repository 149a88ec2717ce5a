import { expect, it } from 'vitest';
import { exactText, parseExactJson } from '../../src/util/exact-json.ts';

it('reads a text of any length', () => {
  const json = `{"a":"${'\\n'.repeat(12_000_000)}","seed":12345678901234567890}`;
  expect(exactText(parseExactJson(json)) === json).toBe(true);
});

it('tells where texts end', () => {
  const json = '{"":"\\\\","\\"":["","\\\\\\"","]}"],"n":[1.0,-0,1e5,true,null]}';
  expect(exactText(parseExactJson(json))).toBe(json);
});
