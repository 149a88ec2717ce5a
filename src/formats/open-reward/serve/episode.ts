import { randomInt } from 'node:crypto';
import { cleanupFailedMetric } from '../../../environment/index.ts';
import { runRollout } from '../../../rollout/index.ts';
import type { Trajectory } from '../../../trajectory/index.ts';
import { sumOf } from '../../../util/sums.ts';
import type { Block, CallResult, ConversationMessage, ToolList } from '../protocol.ts';
import { OpenRewardError } from '../server.ts';
import { answerBlocks, isError, outputBlocks, resultsIn, toConversation } from './blocks.ts';
import { type Action, ClientModel, type Turn } from './client-model.ts';
import {
  type Ended,
  type EpisodeCall,
  isInvalidInput,
  lastBlocks,
  notRun,
  withoutEmpty,
} from './episode-call.ts';
import { replyArgument, type ServedEnvironment } from './servable.ts';

export interface EpisodeOptions {
  environment: ServedEnvironment;
  /** Parsed by the environment's schema. */
  scenario: unknown;
  /** Name of the tool that takes a reply in words. */
  replyTool: string;
  timeoutMs: number;
  rewardTimeoutMs: number;
}

/** What an episode begins with. */
export interface Opening {
  messages: ConversationMessage[];
  tools: ToolList['tools'];
}

export interface EpisodeProblem {
  event: 'session_failed' | 'cleanup_failed';
  message: string;
}

/**
 * One rollout of an environment whose model is a client: the rollout runs as everywhere, and waits at each model call for
 * the client's next action.
 */
export class Episode {
  readonly #replyTool: string;
  readonly #stop = new AbortController();
  readonly #model: ClientModel;
  readonly #ended: Promise<Ended>;
  readonly #opening: Promise<Opening>;
  #turn = Promise.withResolvers<Turn>();
  #trajectory: Trajectory | undefined;
  #misuse: OpenRewardError | undefined;
  /** Calls run one after the other. */
  #acting: Promise<unknown> = Promise.resolve();
  /** Step rewards that calls have had, by the index of their reply. */
  readonly #sent = new Map<number, number>();
  #isOver = false;

  constructor({ environment, scenario, replyTool, timeoutMs, rewardTimeoutMs }: EpisodeOptions) {
    this.#replyTool = replyTool;
    this.#model = new ClientModel(
      (turn) => this.#turn.resolve(turn),
      (error) => this.#misused(error),
    );
    this.#ended = runRollout({
      environment: this.#watched(environment),
      scenario,
      model: this.#model,
      group: 0,
      index: 0,
      attempt: 0,
      seed: randomInt(2 ** 32),
      timeoutMs,
      rewardTimeoutMs,
      onUnexpectedCall: 'error',
      signal: this.#stop.signal,
    });
    this.#opening = this.#open();
    this.#opening.catch(() => undefined);
  }

  /** Waits for the set-up. @throws OpenRewardError if the episode failed before its first reply. */
  opening(): Promise<Opening> {
    return this.#opening;
  }

  /** Runs a call, after those before it. @throws OpenRewardError if the environment fails, or the session is deleted. */
  call(call: EpisodeCall): Promise<CallResult> {
    const result = this.#acting.then(() => this.#call(call));
    this.#acting = result.catch((error) => {
      // What the environment has answered is lost, so the conversation cannot go on.
      if (OpenRewardError.isInstance(error) && error.code === 'environment_not_servable')
        this.#misused(error);
    });
    return result;
  }

  /** Ends the episode, if it has not ended, and waits for its clean-up. */
  async close(): Promise<void> {
    this.#stop.abort(new OpenRewardError('environment_failed', 'the session was deleted'));
    await this.#ended;
  }

  /** What went wrong, when the episode has ended and is cleaned up: its failure, or an error of its clean-up. */
  async problems(): Promise<EpisodeProblem[]> {
    const ended = await this.#ended;
    const { metrics, logs } = ended.trajectory;
    const isFailed = ended.status === 'failed' || this.#misuse !== undefined;
    return [
      ...(isFailed ? [{ event: 'session_failed' as const, message: this.#failureOf(ended).message }] : []),
      ...(metrics[cleanupFailedMetric]
        ? [{ event: 'cleanup_failed' as const, message: logs.at(-1) ?? '' }]
        : []),
    ];
  }

  #misused(error: OpenRewardError): void {
    this.#misuse ??= error;
    this.#stop.abort(error);
  }

  async #open(): Promise<Opening> {
    const next = await this.#next();
    if ('status' in next) {
      const reason = next.status === 'completed' ? `it ended at once (${next.outcome.stopReason})` : null;
      throw reason === null ? this.#failureOf(next) : failed(reason);
    }
    if (next.tools.some(({ name }) => name === this.#replyTool))
      throw new OpenRewardError(
        'environment_not_servable',
        `"${this.#replyTool}" is the name of the tool that takes a reply in words, and of one of the environment: rename it`,
      );
    return { messages: toConversation(next.prompt), tools: next.tools };
  }

  async #call({ name, input }: EpisodeCall): Promise<CallResult> {
    if (this.#isOver)
      return {
        ok: false,
        reason: 'episode_finished',
        error: `"${name}" was not run: the episode has finished.`,
      };
    const turn = await this.#next();
    if ('status' in turn) return this.#finish(turn, [notRun(name, turn)]);
    const words = name === this.#replyTool ? input[replyArgument] : undefined;
    if (name === this.#replyTool && typeof words !== 'string')
      return {
        ok: false,
        reason: 'input_validation',
        error: `"${name}" takes a text as "${replyArgument}"`,
      };
    const action: Action =
      typeof words === 'string' ? { text: words } : { name, input: withoutEmpty(input, name, turn.tools) };
    const before = this.#model.shown;
    this.#turn = Promise.withResolvers();
    if (!turn.reply(action)) {
      const ended = await this.#ended;
      return this.#finish(ended, [notRun(name, ended)]);
    }
    const next = await this.#next();
    const shown = ClientModel.added(before, this.#model.shown);
    if ('status' in next) {
      // A limit may have kept what was said last from being a turn.
      const isShown = this.#model.shown.length > before.length;
      return this.#finish(next, isShown ? answerBlocks(shown) : lastBlocks(next));
    }
    const [result] = resultsIn(shown);
    const { tools } = next;
    if (result && isError(result)) {
      const [block] = outputBlocks(result);
      const error = block?.type === 'text' ? block.text : '';
      if (!tools.some((tool) => tool.name === name)) return { ok: false, reason: 'not_found', error };
      if (isInvalidInput(error, name)) return { ok: false, reason: 'input_validation', error };
    }
    return {
      ok: true,
      output: { blocks: answerBlocks(shown), reward: this.#stepReward(), finished: false, metadata: null },
    };
  }

  /** The next turn, or the end. */
  #next(): Promise<Turn | Ended> {
    return Promise.race([this.#ended, this.#turn.promise]);
  }

  /** What the environment gives for the whole episode, less what its calls have had. */
  #finish(ended: Ended, blocks: Block[]): CallResult {
    if (ended.status !== 'completed') throw this.#failureOf(ended);
    this.#isOver = true;
    const { metrics, stopReason } = ended.trajectory;
    const sent = sumOf([...this.#sent.values()]);
    const metadata = { stop_reason: stopReason, metrics: { ...metrics } };
    return { ok: true, output: { blocks, reward: ended.reward - sent, finished: true, metadata } };
  }

  /** The step rewards since the last call; null if there are none. */
  #stepReward(): number | null {
    let reward: number | null = null;
    for (const call of this.#trajectory?.calls ?? []) {
      const more = call.reward - (this.#sent.get(call.index) ?? 0);
      if (more === 0) continue;
      reward = (reward ?? 0) + more;
      this.#sent.set(call.index, call.reward);
    }
    return reward;
  }

  #failureOf(ended: Ended): OpenRewardError {
    if (this.#misuse) return this.#misuse;
    if (ended.status === 'completed') return failed('the episode is over');
    return failed(`${ended.failure.code}: ${ended.failure.message}`);
  }

  /** Makes the trajectory of an environment readable while it runs. */
  #watched(environment: ServedEnvironment): ServedEnvironment {
    return {
      ...environment,
      open: async (context) => {
        const opened = await environment.open(context);
        return {
          ...opened,
          rollout: (agent) => {
            this.#trajectory = agent.trajectory;
            return opened.rollout(agent);
          },
        };
      },
    };
  }
}

const failed = (what: string): OpenRewardError => new OpenRewardError('environment_failed', what);
