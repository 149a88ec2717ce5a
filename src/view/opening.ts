import { type Message, parseModelName, type Tool, textOf, withoutStep } from '../contract/index.ts';
import type { GroupRecord } from '../rollout/index.ts';
import { readRun } from '../training/index.ts';
import type { AskedForm } from '../trajectory/index.ts';
import type { RunRow } from './api.ts';
import { inOrder, nameOfWhich, whichOf } from './which.ts';

/**
 * How the conversations of a model's newest run begin: what a chat has to send besides the user's message, so that the
 * model is asked as it was trained.
 */
export interface Opening {
  /** The run's id and title. */
  run: string;
  title: string;
  /** The messages before the user's first one: instructions. Empty without them. */
  messages: Message[];
  /** The user's first message of one scenario, as an example; null if the conversation begins without one. */
  example: string | null;
  tools: Tool[];
  /** The form that the first call asked its reply to have. */
  askedForm: AskedForm;
}

/**
 * Finds the opening of a model among runs, newest first; null if no run trained it or none has a conversation yet.
 * @param model With or without its step and its entity.
 */
export async function openingOf(runs: readonly RunRow[], model: string): Promise<Opening | null> {
  for (const run of runs) {
    if (run.model === null || !isSameModel(run.model, model)) continue;
    const opening = await readOpening(run);
    if (opening) return opening;
  }
  return null;
}

function isSameModel(trained: string, asked: string): boolean {
  const [whole, wanted] = [withoutStep(trained), withoutStep(asked)];
  const parsed = parseModelName(whole);
  return whole === wanted || (parsed !== undefined && `${parsed.project}/${parsed.name}` === wanted);
}

/** From the newest step that has a recorded call; else from an evaluation. */
async function readOpening(run: RunRow): Promise<Opening | null> {
  const reader = await readRun(run.folder);
  const names = inOrder((await reader.groupNames()).map(whichOf));
  const steps = names.filter((name) => /^\d+$/.test(name)).reverse();
  for (const which of [...steps, ...names.filter((name) => !steps.includes(name))])
    for await (const group of reader.groups(nameOfWhich(which))) {
      const opening = openingIn(group);
      if (opening) return { run: run.id, title: run.title, ...opening };
    }
  return null;
}

function openingIn({ seat, trajectories }: GroupRecord): Omit<Opening, 'run' | 'title'> | null {
  const trajectory = trajectories.find(({ record }) => record.calls.length > 0);
  if (!trajectory || (seat && !seat.isPolicy)) return null;
  const before: Message[] = [];
  for (const entry of trajectory.messages_and_choices) {
    if ('message' in entry) break;
    before.push(entry);
  }
  const at = before.findIndex(({ role }) => role === 'user');
  const example = before[at];
  return {
    messages: at < 0 ? before : before.slice(0, at),
    example: example ? textOf(example.content) : null,
    tools: [...(trajectory.tools ?? [])],
    askedForm: trajectory.record.asked_form ?? {},
  };
}

/** What a request of a chat has besides its messages, so that the model is asked as in an opening. */
export type AskedAs = AskedForm & { tools?: Tool[] };

/**
 * The tool choice of the run's first call holds for the first answer only: a chat that must call a tool never ends.
 *
 * @param isFirst Whether the request asks for the first answer of the chat.
 */
export function askedAs({ tools, askedForm }: Opening, { isFirst }: { isFirst: boolean }): AskedAs {
  const { tool_choice: choice, ...form } = askedForm;
  return {
    ...(tools.length > 0 ? { tools } : {}),
    ...form,
    ...(isFirst && choice ? { tool_choice: choice } : {}),
  };
}

/** What an opening sends besides the user's messages, in words: `3 tools (refund, track, cancel)`, `its response format`. */
export function openingParts({ messages, tools, askedForm }: Opening): string[] {
  const { tool_choice: choice } = askedForm;
  const names = tools.map((tool) => tool.function.name);
  return [
    ...(messages.length > 0 ? ['its instructions'] : []),
    ...(names.length > 0
      ? [`${names.length === 1 ? '1 tool' : `${names.length} tools`} (${names.join(', ')})`]
      : []),
    ...('response_format' in askedForm || 'structured_outputs' in askedForm ? ['its response format'] : []),
    ...(choice ? [`its tool choice ${JSON.stringify(choice)} for the first answer`] : []),
  ];
}
