import { asSchema } from 'ai';
import { deriveSeed, type ResponseFormat, type SftExample, type Tool } from 'martingale';
import { Dice } from '../common/dice.ts';
import { type Answer, answerOutput, deskTools, type ToolName } from './agent.ts';
import { openDesk } from './environment.ts';
import { type DeskScenario, drawScenario } from './scenarios.ts';

/** Probabilities of the imitated clerk's actions. */
const clerk = {
  usesTool: 0.7,
  copiesOrder: 0.8,
  copiesCode: 0.8,
  /** How often the clerk follows a bad habit, if there is one for the request. */
  followsHabit: 0.75,
} as const;

/** The clerk's bad habits: to refund what should be cancelled, and to cancel what should be tracked. */
const habits: Record<ToolName, ToolName> = { cancel: 'refund', track: 'cancel', refund: 'refund' };

/** The agent's tools and response format in the format of a request, from the agent's own schemas. */
export async function deskRequest(): Promise<{ tools: Tool[]; response_format: ResponseFormat }> {
  const tools = Object.entries(deskTools(() => '')).map(
    async ([name, { description, inputSchema }]): Promise<Tool> => {
      const parameters = { ...(await asSchema(inputSchema).jsonSchema) };
      return {
        type: 'function',
        function: { name, ...(typeof description === 'string' ? { description } : {}), parameters },
      };
    },
  );
  const format = await answerOutput.responseFormat;
  if (format?.type !== 'json' || format.schema === undefined)
    throw new TypeError('The desk agent answers in JSON of a schema.');
  return {
    tools: await Promise.all(tools),
    response_format: {
      type: 'json_schema',
      json_schema: { name: format.name ?? 'response', schema: { ...format.schema }, strict: true },
    },
  };
}

type Message = SftExample['messages'][number];

const answers = (answer: Answer): Message => ({ role: 'assistant', content: JSON.stringify(answer) });

function calls(tool: ToolName, order: string): Message {
  const called = { name: tool, arguments: JSON.stringify({ order }) };
  return {
    role: 'assistant',
    content: null,
    tool_calls: [{ id: 'call-1', type: 'function', function: called }],
  };
}

/** The clerk's conversation with one customer: mostly wrong in the same way, sometimes right. */
function conversation(scenario: Omit<DeskScenario, 'id'>, dice: Dice): Message[] {
  const question: Message = { role: 'user', content: scenario.message };
  if (!dice.chance(clerk.usesTool))
    return [question, answers({ verdict: dice.pick(['done', 'sorry']), code: dice.digits(2) })];

  const tool = dice.chance(clerk.followsHabit) ? habits[scenario.tool] : scenario.tool;
  const order = dice.chance(clerk.copiesOrder) ? scenario.order : dice.digits(4);
  const desk = openDesk(scenario);
  const opening = [
    question,
    calls(tool, order),
    { role: 'tool', tool_call_id: 'call-1', content: desk.answer(tool, order) } satisfies Message,
  ];
  if (!desk.isRight(tool, order)) return [...opening, answers({ verdict: 'sorry', code: dice.digits(2) })];
  const verdict = scenario.fine || dice.chance(clerk.followsHabit) ? 'done' : 'sorry';
  const code = dice.chance(clerk.copiesCode) ? scenario.code : dice.digits(2);
  return [...opening, answers({ verdict, code })];
}

/**
 * Conversations of a clerk with bad habits, for the warm start. Of the requests to cancel, 75% are refunded; of the
 * requests to track, 75% are cancelled; 75% of denials are reported as done; 30% of customers get an invented answer; a
 * fifth of order numbers and codes are wrong. Reinforcement learning has to repair this.
 */
export async function deskDemonstrations({
  seed,
  count,
}: {
  seed: number;
  count: number;
}): Promise<SftExample[]> {
  const dice = new Dice(deriveSeed(seed, 2));
  const request = await deskRequest();
  return Array.from({ length: count }, () => ({
    messages: conversation(drawScenario('train', dice), dice),
    ...request,
  }));
}
