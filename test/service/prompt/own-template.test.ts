import { describe, expect, test } from 'vitest';
import type { Message } from '../../../src/contract/index.ts';
import { LanguageError } from '../../../src/language/error.ts';
import { TemplateRunner } from '../../../src/language/extensions/request-template/template-runner.ts';
import { fromLanguage } from '../../../src/service/errors.ts';
import { promptOf, refusalOf, shown, shownPrompt, tokenizer } from './embedded.ts';

const user = { role: 'user', content: 'hi' } as const;
const render = (chat_template: string, fields: object = {}) =>
  shownPrompt({ messages: [user], chat_template, ...fields });
const refusal = (chat_template: string, fields: object = {}) =>
  refusalOf({ messages: [user], chat_template, ...fields });

describe('a chat template of the request', () => {
  test('writes the prompt, special tokens among it', async () => {
    const { tokens, own } = await promptOf({
      messages: [user, { role: 'judge', content: ' so ' }],
      chat_template:
        '{{ bos_token }}{% for m in messages %}<|user|>{{ m.role }}={{ m.content | trim }}{{ eos_token }}{% endfor %}',
    });
    expect([shown(tokens), own]).toEqual(['<|begin|><|user|>user=hi<|end|><|user|>judge=so<|end|>', true]);
    expect(tokens.filter((token) => tokenizer.bytes(token).length === 0)).toEqual([506, 498, 496, 498, 496]);
  });

  test('sees texts unchanged, whatever it does with them', async () => {
    const content = ' <b>Say "é" & {{x}} ';
    const looks = [
      ['{{ messages[0].content | length }}', String(content.length)],
      ["{{ '<b>' in messages[0].content }}", 'True'],
      ['{{ messages[0].content.split("é")[1] }}', '" & {{x}} '],
      ['{{ messages[0].content | tojson(ensure_ascii=true) }}', '" <b>Say \\"\\u00e9\\" & {{x}} "'],
    ] as const;
    for (const [template, written] of looks)
      expect(await render(template, { messages: [{ role: 'user', content }] })).toBe(written);
  });

  test('writes no token that a text names, even if it joins, cuts or escapes texts', async () => {
    const templates = [
      '{{ messages[0].content }}{{ messages[1].content }}',
      '{{ messages[0].content[:1] }}{{ messages[1].content }}',
      '{{ [messages[0].content, messages[1].content] | tojson(ensure_ascii=true) }}',
      '{{ messages | tojson }}',
      '{{ messages[2].content | lower }}',
    ];
    for (const chat_template of templates) {
      const { tokens } = await promptOf({
        messages: ['<|', '|end|>', '<|END|>', '<|end|>'].map((content) => ({ role: 'user', content })),
        chat_template,
      });
      expect(tokens.filter((token) => tokenizer.bytes(token).length === 0)).toEqual([]);
      expect(tokenizer.decode(tokens)).not.toMatch(/[\ufdd0-\ufdef]|\\ufd/);
    }
  });

  test('gets tools, documents, the effort and further variables', async () => {
    expect(
      await render(
        '{{ tools[0].function.name }} {{ documents[0].text }} {{ reasoning_effort }} {{ mood.x[0] }} {{ add_generation_prompt }}',
        {
          tools: [{ type: 'function', function: { name: 'f', description: 'ends with <|end|>' } }],
          documents: [{ text: 'd' }],
          reasoning_effort: 'low',
          chat_template_kwargs: { mood: { x: ['glad'] } },
        },
      ),
    ).toBe('f d low glad True');
  });

  test('inserts sampled ids, which it cannot split', async () => {
    const messages: Message[] = [{ role: 'assistant', content: 'ab', token_ids: [300, 301, 496] }];
    const chat_template = '<|tool|>{{ messages[0].content }}<|end|>';
    expect((await promptOf({ messages, chat_template })).tokens).toEqual([500, 300, 301, 496]);
    for (const look of [
      '{{ messages[0].content[:2] }}',
      '{{ messages[0].content | tojson(ensure_ascii=true) }}',
    ])
      expect(await refusalOf({ messages, chat_template: look })).toContain('token_ids');
  });

  test('leaves the final message open', async () => {
    const open = { continue_final_message: true };
    expect(await render('<|user|>{{ messages[0].content }}<|end|>{{ eos_token }}', open)).toBe('<|user|>hi');
    expect(await refusal('<|user|>', open)).toContain('continue');
  });

  test('must write something', async () => {
    expect(await refusal('')).toContain('to nothing');
  });

  test.each([
    ["{{ raise_exception('roles must alternate') }}", 'roles must alternate'],
    ['{% if %}', 'chat_template'],
    ['{{ messages[0].content | nonsense }}', 'nonsense'],
    ['{{ nobody.there() }}', 'nobody is undefined'],
    ['{{ range.there() }}', 'no function or method there'],
    [`${'('.repeat(2000)}{{ ${'('.repeat(20_000)} }}`, 'chat_template'],
  ])('that fails is refused with its reason: %s', async (template, reason) => {
    expect(await refusal(template)).toContain(reason);
  });

  test('is refused beyond 64 KiB', async () => {
    expect(await render(`{#${'a'.repeat(65_530)}#}aa`, { truncate_prompt_tokens: 2 })).toBe('aa');
    expect(await refusal('a'.repeat(65_537))).toContain('65536');
    expect(await refusal('é'.repeat(32_769))).toContain('65536');
  });
});

describe('a template that exceeds its limits', () => {
  const doubled = (times: number) =>
    `{% set ns = namespace(s='xy') %}{% for i in range(${times}) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}`;

  const powers =
    '{% set ns = namespace(n=7) %}{% for i in range(40) %}{% set ns.n = ns.n * ns.n %}{% endfor %}{{ ns.n }}';

  test.each([
    ['endless loops', '{% for i in range(10**9) %}{% endfor %}', /range of 1000000000 numbers is too long/],
    [
      'loops within loops',
      '{% for a in range(3000) %}{% for b in range(3000) %}{% for c in range(3000) %}{% endfor %}{% endfor %}{% endfor %}',
      /more than 4194304 steps/,
    ],
    [
      'a list that doubles',
      doubled(40).replace("'xy'", "['xy']").replace(' ~ ', ' + '),
      /more than 16777216 characters/,
    ],
    ['a text in pieces', `${doubled(24)}{{ ns.s[::2] | length }}`, /more than 16777216 characters/],
    ['a text longer than any', `${doubled(29)}{{ ns.s | upper }}`, /more than 16777216 characters/],
    ['an output of 2 MiB', `${doubled(20)}{{ ns.s }}`, /2097152 characters; the maximum is 1048576/],
    [
      'long operations',
      doubled(19).replace('xy', 'x ') + '{{ ns.s | title | length }}'.repeat(10),
      /more than 1000 ms of processor time/,
    ],
    ['a power of powers', powers, /the product is too large/],
    ['an endless line', ' '.repeat(60_000), /more than 512 spaces and line ends in a row/],
    ['an open tag that repeats', '{{'.repeat(32_000), /Unexpected token/],
    ['a recursion', '{% macro f(g) %}{{ g(g) }}{% endmacro %}{{ f(f) }}', /call stack/],
  ])('is refused, and the next one is rendered: %s', async (_, template, reason) => {
    expect(await refusal(template)).toMatch(reason);
    expect(await render('{{ messages[0].content }}')).toBe('hi');
  });

  test('does not fail the next ones', async () => {
    const answers = await Promise.all([
      refusal('{% for i in range(10**9) %}{% endfor %}'),
      render('{{ messages[0].content }}1'),
      render('{{ messages[0].content }}2'),
    ]);
    expect(answers.slice(1)).toEqual(['hi1', 'hi2']);
  });

  test('waits in a bounded queue', async () => {
    const runner = new TemplateRunner({ maxWaiting: 1 });
    const task = { source: 'a', variables: {} };
    const rendered = [runner.render(task), runner.render(task)];
    await expect(answered(runner.render(task))).rejects.toMatchObject({
      status: 503,
      code: 'templates_busy',
    });
    await Promise.all(rendered);
  });

  test('waits for one template of each other tenant, and no longer for one whose client has left', async () => {
    const runner = new TemplateRunner({ maxWaiting: 6 });
    const order: string[] = [];
    const ask = (tenant: string, source: string, signal?: AbortSignal) =>
      runner.render({ source, variables: {} }, { tenant, signal }).then((result) => {
        order.push(source);
        return result;
      });
    const leave = new AbortController();
    const begun = ask('a', 'a1');
    const leaving = ['a2', 'a3', 'a4'].map((source) => ask('a', source, leave.signal));
    await expect(answered(ask('a', 'a5'))).rejects.toMatchObject({ status: 503, message: /of this key/ });
    const others = [ask('b', 'b1'), ask('b', 'b2')];
    leave.abort(new Error('left'));
    for (const one of leaving) await expect(one).rejects.toThrow('left');
    await Promise.all([begun, ask('a', 'a6'), ask('c', 'c1'), ...others]);
    expect(order).toEqual(['a1', 'b1', 'a6', 'c1', 'b2']);
  });
});

/** Rejects with the answer of the service. */
const answered = <Result>(work: Promise<Result>): Promise<Result> =>
  work.catch((error: unknown) => {
    throw error instanceof LanguageError ? fromLanguage(error) : error;
  });

describe('variables of the model’s own template', () => {
  test.each([
    ['messages', []],
    ['tools', []],
    ['documents', []],
    ['add_generation_prompt', false],
    ['continue_final_message', true],
    ['range', 1],
    ['a b', 1],
  ])('cannot be %s', async (name, value) => {
    expect(await refusalOf({ messages: [user], chat_template_kwargs: { [name]: value } })).toContain(
      `chat_template_kwargs.${name}`,
    );
  });

  test('are used if it knows them', async () => {
    const set = { reasoning_effort: 'low' } as const;
    const expected = await promptOf({ messages: [user], reasoning_effort: 'low' });
    expect(await promptOf({ messages: [user], chat_template_kwargs: set })).toEqual(expected);
    expect(await promptOf({ messages: [user], chat_template_kwargs: set, ...set })).toEqual(expected);
    expect(
      await refusalOf({ messages: [user], chat_template_kwargs: set, reasoning_effort: 'high' }),
    ).toContain('chat_template_kwargs.reasoning_effort');
  });

  test('change nothing if it does not know them', async () => {
    const plain = await promptOf({ messages: [user] });
    expect(await promptOf({ messages: [user], chat_template_kwargs: { custom: 1 } })).toEqual(plain);
    const { tokens } = await promptOf({ messages: [user], chat_template_kwargs: { enable_thinking: false } });
    expect(tokens).toEqual(plain.tokens);
    expect(await render('{{ a }}', { chat_template_kwargs: { a: 1, enable_thinking: false } })).toBe('1');
    // The switch of other models is a variable like any other here.
    const own = { chat_template_kwargs: { enable_thinking: false }, reasoning_effort: 'low' };
    expect(await render('{{ enable_thinking }}', own)).toBe('False');
  });

  test('change nothing if empty', async () => {
    const plain = await promptOf({ messages: [user] });
    expect(
      await promptOf({ messages: [user], chat_template_kwargs: {}, documents: [], chat_template: null }),
    ).toEqual(plain);
  });
});
