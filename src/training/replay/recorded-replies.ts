import { RequestError } from '../../client/index.ts';
import type { ChatCompletion, ChatCompletionRequest, Message } from '../../contract/index.ts';
import { differences, quoted, type RecordedAnswer, ReplaySource } from '../../model/index.ts';
import { deriveSeed, type History, type RecordedCall, type Trajectory } from '../../trajectory/index.ts';
import { append } from '../../util/extremes.ts';
import { canonicalJson } from '../../util/json.ts';
import { RunError } from '../../util/run-error.ts';

/**
 * Answers the calls of one rollout from its record: each recorded choice for the same messages. Seeds distinguish calls
 * with equal messages.
 */
export class RecordedReplies extends ReplaySource {
  readonly #trajectory: Trajectory;
  readonly #left: RecordedCall[];
  /** Seeds of the calls whose prompts were too long. */
  readonly #refused: Set<number>;
  #mismatch: RunError | undefined;

  constructor(trajectory: Trajectory) {
    super();
    this.#trajectory = trajectory;
    this.#left = [...trajectory.log.calls];
    const { seed, observations } = trajectory;
    this.#refused = new Set(observations.refusedCalls.map((index) => deriveSeed(seed, index)));
  }

  /** The error of the first call that is not in the record, even if the agent caught it. */
  get mismatch(): RunError | undefined {
    return this.#mismatch;
  }

  /** Number of recorded calls that have not been repeated. */
  get left(): number {
    return this.#left.length;
  }

  protected override take({ messages, seed }: ChatCompletionRequest): RecordedAnswer {
    const requested = wordsOf(messages);
    const alike = this.#left.filter((call) => wordsOf(call.messages) === requested);
    const call = alike.find(({ index }) => deriveSeed(this.#trajectory.seed, index) === seed) ?? alike[0];
    // If the agent sets its own seeds, a refused call is recognized by having no recorded reply.
    const refused = [...this.#refused].find((known) => known === seed || !call);
    if (refused !== undefined) {
      this.#refused.delete(refused);
      throw tooLong();
    }
    if (!call) throw this.#refuse(messages);
    this.#left.splice(this.#left.indexOf(call), 1);
    return { completion: this.#completion(call) };
  }

  #refuse(messages: readonly Message[]): RunError {
    const [next] = this.#left;
    const [first] = next ? differences(withoutIds(messages), withoutIds(next.messages), 'messages') : [];
    const error = new RunError(
      'replay_mismatch',
      next
        ? `Call ${next.index} of the rollout has other messages: ${first?.path} is ${quoted(first?.a, 120)} and was ${quoted(first?.b, 120)}.`
        : 'The rollout makes more model calls than the recorded one.',
    );
    this.#mismatch ??= error;
    return error;
  }

  #completion(call: RecordedCall): ChatCompletion {
    const { credited_reward: _, added_prompt_token_ids: __, ...choice } = call.choice;
    const history = this.#trajectory.histories.find(({ calls }) => calls.includes(call));
    const known = history?.promptIds(call);
    if (known) choice.prompt_token_ids = known;
    const prompt = known ?? this.#placeholders(call, history);
    const sampled = choice.token_ids?.length ?? 0;
    return {
      id: `replayed-${call.index}`,
      object: 'chat.completion',
      created: 0,
      model: call.model,
      choices: [choice],
      usage: {
        prompt_tokens: prompt.length,
        completion_tokens: sampled,
        total_tokens: prompt.length + sampled,
      },
      prompt_token_ids: prompt,
    };
  }

  /**
   * Stands in for a prompt that is not recorded. It has as many ids, and the sampled tokens of the history at their
   * positions, so that the same calls extend the same histories.
   */
  #placeholders(call: RecordedCall, history: History | undefined): number[] {
    const at = history ? this.#trajectory.histories.indexOf(history) : -1;
    const ids: number[] = [];
    for (const { choice, promptTokens } of history?.calls ?? []) {
      while (ids.length < promptTokens) ids.push(-1 - at);
      if (choice === call.choice) break;
      append(ids, choice.token_ids ?? []);
    }
    return ids;
  }
}

/** The error for a prompt that is longer than the model's context. */
function tooLong(): RequestError {
  return new RequestError('context_length_exceeded', {
    method: 'POST',
    path: '/v1/chat/completions',
    status: 400,
    requestId: null,
    detail: "In the record, the prompt was longer than the model's context",
  });
}

/** The messages without token ids, which callers may or may not send. */
const withoutIds = (messages: readonly Message[]): unknown[] =>
  messages.map((message) => ({ ...message, token_ids: undefined }));

const wordsOf = (messages: readonly Message[]): string =>
  canonicalJson(withoutIds(messages), { withoutNull: true });
