import { generateText, stepCountIs, tool } from 'ai';
import { defineEnvironment, ModelHandle, runGroups } from 'martingale';
import { z } from 'zod';
import { type DelayedService, startDelayedService } from '../delayed-process.ts';
import { delayMs } from '../rollouts.ts';
import { PeerProgram } from './peer-program.ts';
import { measureInTurn, median, medianRatio } from './rounds.ts';

export interface RolloutsWork {
  /** Model calls of a rollout. Before the last one, each calls a tool. */
  turns: number;
  inFlight: number;
}

export interface RolloutPeerRow extends RolloutsWork {
  what: string;
  /** Median of rollouts a second. */
  perSecond: number;
  /** martingale's rate relative to this one. */
  ratio: number;
}

const rolloutsPerGroup = 8;
/** Connections to which a transport is limited where more of them cost it more than they bring. */
const fewConnections = 100;
const speed = z.object({ perSecond: z.number() });

const agent = (turns: number) =>
  defineEnvironment({
    name: 'bench',
    scenario: z.object({ id: z.number() }),
    rollout: async ({ model, signal }) => {
      const { text } = await generateText({
        model: model.languageModel,
        prompt: 'What is there to say about this?',
        abortSignal: signal,
        ...(turns > 1 ? { tools: { look }, stopWhen: stepCountIs(turns) } : {}),
      });
      return text;
    },
    rewards: { length: ({ outcome }) => outcome.length },
  });

const look = tool({
  description: 'Looks at a place.',
  inputSchema: z.object({ place: z.string() }),
  execute: ({ place }) => `nothing on the ${place}`,
});

interface Rollouts extends RolloutsWork {
  rollouts: number;
  /** Rollouts before those that count. */
  warmUp: number;
}

async function measureOurs(service: DelayedService, work: Rollouts): Promise<number> {
  const client = service.connect();
  const run = async (rollouts: number) => {
    const { counts } = await runGroups({
      environment: agent(work.turns),
      scenarios: Array.from({ length: rollouts / rolloutsPerGroup }, (_, id) => ({ id })),
      rolloutsPerGroup,
      model: new ModelHandle({ client, name: 'local/p/bench:step1' }),
      concurrency: work.inFlight,
    });
    if (counts.completed !== rollouts) throw new Error(`not all completed: ${JSON.stringify(counts)}`);
  };
  try {
    await run(work.warmUp);
    const begun = performance.now();
    await run(work.rollouts);
    return (1000 * work.rollouts) / (performance.now() - begun);
  } finally {
    await client.close();
  }
}

const multipleOf = (count: number) => rolloutsPerGroup * Math.max(1, Math.round(count / rolloutsPerGroup));

/**
 * Rollouts of agents beside those of ART and verifiers, each with as many in flight, against a service in another
 * process that answers after a fixed delay. ART is measured with its own client and with the aiohttp transport of the
 * openai client, with all connections and with 100.
 */
export async function* benchRolloutPeers(options: {
  python: { art: string; verifiers: string };
  works: readonly RolloutsWork[];
  rounds: number;
}): AsyncGenerator<RolloutPeerRow> {
  await using art = new PeerProgram(options.python.art, 'art_rollouts.py', []);
  await using verifiers = new PeerProgram(options.python.verifiers, 'verifiers_rollouts.py', []);
  for (const { turns, inFlight } of options.works) {
    await using service = await startDelayedService(delayMs, turns);
    const work = { turns, inFlight, rollouts: multipleOf(2 * inFlight), warmUp: multipleOf(inFlight / 4) };
    const { baseUrl } = service;
    const ask = async (peer: PeerProgram, more: object = {}) =>
      (await peer.ask({ ...work, baseUrl, ...more }, speed)).perSecond;
    const limited = { transport: 'aiohttp', inFlight: Math.min(fewConnections, inFlight) };
    const rates = await measureInTurn(options.rounds, {
      martingale: () => measureOurs(service, work),
      ART: () => ask(art, { transport: 'httpx' }),
      'ART, aiohttp': () => ask(art, { transport: 'aiohttp' }),
      [`ART, aiohttp, ${limited.inFlight} in flight`]: () => ask(art, limited),
      verifiers: () => ask(verifiers),
    });
    const { martingale = [] } = rates;
    for (const [what, measured] of Object.entries(rates))
      yield { turns, inFlight, what, perSecond: median(measured), ratio: medianRatio(martingale, measured) };
  }
}
