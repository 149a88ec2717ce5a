import { describe, expect, it } from 'vitest';
import { deskDemonstrations } from '../../../recipes/desk/demonstrations.ts';
import { splitOf } from '../../../recipes/desk/scenarios.ts';
import { sftExampleSchema } from '../../../src/contract/index.ts';

const demonstrations = (await deskDemonstrations({ seed: 1, count: 4000 })).map((example) =>
  sftExampleSchema.parse(example),
);

/** What one demonstration does, read from its messages. */
function read({ messages }: (typeof demonstrations)[number]) {
  const question = String(messages[0]?.content);
  const call = messages.flatMap((message) =>
    message.role === 'assistant' ? (message.tool_calls ?? []) : [],
  )[0];
  const answer = JSON.parse(String(messages.at(-1)?.content));
  return {
    wanted: /refund|money/.test(question)
      ? 'refund'
      : /cancel|stop|mind|not send/.test(question)
        ? 'cancel'
        : 'track',
    order: /\d{4}/.exec(question)?.[0] ?? '',
    tool: call?.function.name,
    calledOrder: call && JSON.parse(call.function.arguments).order,
    status: messages.find((message) => message.role === 'tool')?.content?.toString(),
    answer,
  };
}

const all = demonstrations.map(read);
const share = <Item>(items: Item[], has: (item: Item) => boolean) => items.filter(has).length / items.length;

describe('desk demonstrations', () => {
  it('are systematically wrong about cancelling and tracking', () => {
    const called = all.filter(({ tool }) => tool !== undefined);
    const of = (wanted: string) => called.filter((one) => one.wanted === wanted);
    expect(share(of('cancel'), ({ tool }) => tool === 'refund')).toBeCloseTo(0.75, 1);
    expect(share(of('cancel'), ({ tool }) => tool === 'cancel')).toBeCloseTo(0.25, 1);
    expect(share(of('track'), ({ tool }) => tool === 'cancel')).toBeCloseTo(0.75, 1);
    expect(share(of('refund'), ({ tool }) => tool === 'refund')).toBe(1);
  });

  it('skip the tool for 30% of the customers and get a fifth of the orders wrong', () => {
    expect(share(all, ({ tool }) => tool === undefined)).toBeCloseTo(0.3, 1);
    const called = all.filter(({ tool }) => tool !== undefined);
    expect(share(called, ({ order, calledOrder }) => order !== calledOrder)).toBeCloseTo(0.2, 1);
  });

  it('call denials done three times in four and copy four codes in five', () => {
    const served = all.filter(({ status }) => status?.startsWith('status'));
    const denied = served.filter(({ status }) => status?.includes('denied'));
    expect(share(denied, ({ answer }) => answer.verdict === 'done')).toBeCloseTo(0.75, 1);
    expect(share(served, ({ status, answer }) => status?.endsWith(answer.code) === true)).toBeCloseTo(0.8, 1);
    const errors = all.filter(({ status }) => status === 'error not found');
    expect(share(errors, ({ answer }) => answer.verdict === 'sorry')).toBe(1);
  });

  it('keep to the orders of the training split', () => {
    expect(all.every(({ order }) => splitOf(order) === 'train')).toBe(true);
  });

  it('come out the same for the same seed', async () => {
    expect(await deskDemonstrations({ seed: 3, count: 20 })).toEqual(
      await deskDemonstrations({ seed: 3, count: 20 }),
    );
  });
});
