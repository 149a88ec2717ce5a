import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { type RolloutGroup, runGroups } from 'martingale';
import { openReward } from 'martingale/environments';
import { type ScriptedReply, scriptedModel } from 'martingale/testing';
import { describe, expect, it, onTestFinished } from 'vitest';
import { OpenRewardServer } from '../../../src/formats/open-reward/server.ts';
import { startServer } from '../../support/http-server.ts';
import { startStandardServer } from './standard-server.ts';

const guesses = (...texts: string[]): ScriptedReply => ({
  toolCalls: texts.map((n) => ({ name: 'guess', arguments: { n } })),
});

/** Rollouts of all three tasks, one each, by a model that answers by its turn. */
async function runWith(
  server: Awaited<ReturnType<typeof startStandardServer>>,
  reply: (turn: number, question: string) => ScriptedReply,
  options: Parameters<typeof openReward>[1] = {},
) {
  const numbers = await openReward(server.url, options);
  onTestFinished(() => numbers.close());
  const model = scriptedModel(({ messages }) => {
    const turn = messages.filter(({ role }) => role === 'assistant').length;
    const question = String(messages.find(({ role }) => role === 'user')?.content);
    return reply(turn, question);
  });
  const scenarios = await numbers.scenarios('train');
  const { groups, counts } = await runGroups({
    environment: numbers.environment,
    scenarios,
    rolloutsPerGroup: 1,
    model,
  });
  return { groups, counts, trajectories: groups.flatMap((group) => group.trajectories) };
}

const numberIn = (question: string) => /is (\d)/.exec(question)?.[1] ?? '';
const failuresOf = (groups: readonly RolloutGroup[]) =>
  groups.flatMap(({ rollouts }) =>
    rollouts.flatMap((one) => (one.status === 'failed' ? [one.failure.message] : [])),
  );

describe('openReward', () => {
  it('ends its waits when its signal aborts, also those of a server that is still starting', async () => {
    const stop = new AbortController();
    const { url, close } = await startServer((_, response) => {
      response.writeHead(503, { 'retry-after': '30' }).end();
      setImmediate(() => stop.abort('enough'));
    });
    onTestFinished(close);
    await expect(openReward(url, { signal: stop.signal })).rejects.toBe('enough');
    const server = await startStandardServer();
    const numbers = await openReward(server.url);
    onTestFinished(() => numbers.close());
    const signal = AbortSignal.abort('no longer');
    await expect(numbers.scenarios('train', { signal })).rejects.toBe('no longer');
  });

  it('makes rollouts of tasks, tools and rewards, and deletes each session', async () => {
    const server = await startStandardServer();
    const { trajectories, counts } = await runWith(
      server,
      (turn, question) => guesses(turn === 0 ? '7' : numberIn(question)),
      { secrets: { judge: 'a key' }, apiKey: 'mine' },
    );
    expect(counts.completed).toBe(3);
    expect(trajectories.map(({ reward }) => reward)).toEqual([1.25, 1.25, 1.25]);
    expect(trajectories[0]?.metrics.finished).toBe(1);
    expect(trajectories[0]?.stopReason).toBe('environment_finished');
    // The second reply made the larger reward; the first is credited with both.
    expect(trajectories[0]?.calls.map(({ reward }) => reward)).toEqual([0.25, 1]);
    expect(server.episodes.size).toBe(0);
    const secrets = Buffer.from(String(server.created['x-secrets']), 'base64').toString();
    expect([JSON.parse(secrets), server.created.authorization]).toEqual([
      { judge: { value: 'a key' } },
      'Bearer mine',
    ]);
  });

  it('answers a wrong call with the text of the environment, and calls nothing after the end', async () => {
    const server = await startStandardServer();
    const { trajectories } = await runWith(server, (turn, question) =>
      turn === 0 ? { toolCalls: [{ name: 'absent', arguments: {} }] } : guesses(numberIn(question), '9'),
    );
    expect(trajectories.map(({ reward }) => reward)).toEqual([1, 1, 1]);
    expect(server.received.filter((path) => path.endsWith('/call'))).toHaveLength(3);
  });

  it('gives a reply without calls to the terminal tool', async () => {
    const server = await startStandardServer();
    server.hasTerminalTool = true;
    const { trajectories } = await runWith(server, (_, question) => numberIn(question));
    expect(trajectories.map(({ reward }) => reward)).toEqual([1, 1, 1]);
  });

  it('uses the prompt of a server that has no messages', async () => {
    const server = await startStandardServer();
    server.hasMessages = false;
    const { counts } = await runWith(server, (_, question) => guesses(numberIn(question)));
    expect(counts.completed).toBe(3);
  });

  it('takes up a call again whose connection was lost, and runs it once', async () => {
    const server = await startStandardServer();
    server.fault = (path, count) => (path === '/numbers/call' && count % 2 === 1 ? 'lose' : undefined);
    const { trajectories, counts } = await runWith(server, (_, question) => guesses(numberIn(question)));
    expect(counts.completed).toBe(3);
    expect(trajectories.map(({ reward }) => reward)).toEqual([1, 1, 1]);
    expect(server.received.filter((path) => path.endsWith('/call')).length).toBeGreaterThan(3);
  });

  it('sends again what it could not send, as no server listened', async () => {
    const numbers = await startStandardServer();
    await numbers.stopListening();
    // Listens again as soon as a connection was refused.
    const back = () => void numbers.listenAgain();
    subscribe('undici:client:connectError', back);
    onTestFinished(() => void unsubscribe('undici:client:connectError', back));
    const server = new OpenRewardServer({ url: numbers.url });
    onTestFinished(() => server.close());
    expect((await server.streamed('/create_session', {})).trim()).toBe('');
    expect(numbers.received).toEqual(['POST /create_session']);
  });

  it('waits for an environment that is still starting', async () => {
    const server = await startStandardServer();
    server.fault = (path, count) => (path === '/numbers/task_tools' && count < 4 ? 503 : undefined);
    const { counts } = await runWith(server, (_, question) => guesses(numberIn(question)));
    expect(counts.completed).toBe(3);
  });

  it.for([
    ['throws', 'ValueError: broken'],
    ['is cut off before a call has a name', 'did not answer /numbers/call to the end'],
    ['is cut off each time', 'did not answer /numbers/call to the end'],
    ['fails', 'answered /numbers/call with 500'],
    ['forgets the session', 'answered /numbers/call with 404'],
  ] as const)('a rollout fails and has no reward when the environment %s', async ([how, message]) => {
    const server = await startStandardServer();
    server.throws = how === 'throws';
    const faults = { fails: 500, 'forgets the session': 404 } as const;
    if (how !== 'throws')
      server.fault = (path) =>
        path !== '/numbers/call'
          ? undefined
          : how in faults
            ? faults[how as 'fails']
            : how === 'is cut off each time'
              ? 'lose'
              : 'cut';
    const { groups, counts, trajectories } = await runWith(server, () => guesses('1'));
    expect([counts.failed, trajectories.length]).toEqual([3, 0]);
    expect(failuresOf(groups).join('\n')).toContain(message);
    expect(server.episodes.size).toBe(0);
  });

  it.each([
    ['system', { type: 'image', data: '', mimeType: 'image/png' }],
    ['user', { type: 'reasoning', text: 'hm' }],
    ['assistant', { type: 'tool_result', tool_call_id: '1', blocks: [] }],
  ])(
    'a rollout fails that a %s message begins with what no model would be shown: %j',
    async (role, block) => {
      const server = await startStandardServer();
      server.moreMessages = [{ role, blocks: [block] }];
      const { groups } = await runWith(server, () => '');
      expect(failuresOf(groups)[0]).toContain(`a block "${block.type}" in message 2, of the role "${role}"`);
      expect(server.episodes.size).toBe(0);
    },
  );

  it('a session that cannot begin fails its rollout and is deleted', async () => {
    const server = await startStandardServer();
    server.fault = (path) => (path === '/numbers/task_tools' ? 422 : undefined);
    const { groups, counts } = await runWith(server, () => guesses('1'));
    expect(counts.failed).toBe(3);
    expect(failuresOf(groups).join('\n')).toContain('answered /numbers/task_tools with 422');
    expect(server.episodes.size).toBe(0);
  });

  it('refuses what the server does not have, by name', async () => {
    const server = await startStandardServer();
    const bad = (message: string) => ({ code: 'bad_option', message: expect.stringContaining(message) });
    await expect(openReward(server.url, { environment: 'absent' })).rejects.toMatchObject(
      bad('It has numbers, other'),
    );
    const numbers = await openReward(server.url);
    onTestFinished(() => numbers.close());
    await expect(numbers.scenarios('test')).rejects.toMatchObject(bad('It has train'));
    await expect(openReward('numbers')).rejects.toMatchObject(bad('an http or https address'));
    await expect(openReward('http://127.0.0.1:1')).rejects.toMatchObject({ code: 'environment_server_away' });
  });
});
