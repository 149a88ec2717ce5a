import { NoObjectGeneratedError } from 'ai';
import { defineEnvironment, type RolloutModel } from 'martingale';
import { type Answer, createDeskAgent, type Desk, type ToolName } from './agent.ts';
import { type DeskScenario, deskScenario } from './scenarios.ts';

type Order = Pick<DeskScenario, 'tool' | 'order' | 'code' | 'fine'>;

/** The desk of one scenario: only the right tool with the right order number succeeds. */
export function openDesk(expected: Order): {
  isRight: (tool: ToolName, order: string) => boolean;
  answer: Desk;
} {
  const isRight = (tool: ToolName, order: string) => tool === expected.tool && order === expected.order;
  const status = `status ${expected.fine ? 'ok' : 'denied'} code ${expected.code}`;
  return { isRight, answer: (tool, order) => (isRight(tool, order) ? status : 'error not found') };
}

/** The agent's calls in order, and its answer; null without one. */
export interface Outcome {
  calls: { tool: ToolName; order: string }[];
  answer: Answer | null;
}

/** The four parts of the reward. Only the first call counts, and the answer counts only after a right call. */
export function checkOutcome(expected: Order, { calls, answer }: Outcome) {
  const first = calls[0];
  const tool = first?.tool === expected.tool;
  const order = first?.order === expected.order;
  const served = tool && order && calls.length === 1 && answer !== null;
  return {
    tool,
    order,
    verdict: served && answer.verdict === (expected.fine ? 'done' : 'sorry'),
    code: served && answer.code === expected.code,
  };
}

type Scored = { scenario: DeskScenario; outcome: Outcome };
const part = (name: keyof ReturnType<typeof checkOutcome>) => ({
  weight: 0.25,
  reward: ({ scenario, outcome }: Scored) => Number(checkOutcome(scenario, outcome)[name]),
});

type RolloutContext = { scenario: DeskScenario; model: RolloutModel; signal: AbortSignal };

const agent = {
  scenario: deskScenario,
  rollout: async ({ scenario, model, signal }: RolloutContext): Promise<Outcome> => {
    const { answer } = openDesk(scenario);
    const calls: Outcome['calls'] = [];
    const agent = createDeskAgent(model.languageModel, (tool, order) => {
      calls.push({ tool, order });
      return answer(tool, order);
    });
    try {
      const result = await agent.generate({ prompt: scenario.message, abortSignal: signal });
      return { calls, answer: result.finishReason === 'stop' ? result.output : null };
    } catch (error) {
      // An answer that does not fit the schema is the policy's mistake and does not fail the rollout.
      if (NoObjectGeneratedError.isInstance(error)) return { calls, answer: null };
      throw error;
    }
  },
};

/** Measured, but not paid for. */
const success = {
  weight: 0,
  reward: ({ scenario, outcome }: Scored) =>
    Number(Object.values(checkOutcome(scenario, outcome)).every(Boolean)),
};

export const desk = defineEnvironment({
  ...agent,
  name: 'desk',
  rewards: {
    tool: part('tool'),
    order: part('order'),
    verdict: part('verdict'),
    code: part('code'),
    success,
  },
});

/** The same without rewards, for a teacher. */
export const taughtDesk = defineEnvironment({ ...agent, name: 'taught desk', rewards: { success } });
