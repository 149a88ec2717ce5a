/*
 * What always holds of groups on their way to the service:
 * - A group is sent while the journal gets it, and nothing changes it after that. No job or log names it before both have
 *   it.
 * - Its content decides its id, so a repeat, also of a resumed run, is the same group.
 * - When the journal and the service have a group, its messages, tokens and outcomes leave the memory.
 * - A trajectory that the service refuses fails its rollout, and the rest of the group goes on without it.
 */
import PQueue from 'p-queue';
import type { z } from 'zod';
import { isRequestError, type RequestError } from '../client/index.ts';
import { type StoredGroup, withoutStep } from '../contract/index.ts';
import type { ModelHandle } from '../model/index.ts';
import {
  countRollouts,
  type GroupsResult,
  type Rollout,
  type RolloutFailure,
  RolloutGroup,
  trajectoriesOf,
  whyDropped,
} from '../rollout/index.ts';
import { fromTrajectoryRecord, type Trajectory, toTrajectoryRecord } from '../trajectory/index.ts';
import type { RunContext } from './run-context.ts';
import { type GroupsToSend, sendGroup } from './submit-training.ts';

/** Most groups of a step that are sent at once. */
const concurrency = 4;

/**
 * After this time a group is sent again before it is named: the service removes one that was not named in a day, or not
 * again in an hour.
 */
const freshMs = { unnamed: 12 * 3_600_000, named: 1_800_000 };

interface Sent {
  sending: Promise<StoredGroup>;
  /** When it was sent or last named, in milliseconds since 1970. */
  at: number;
  isNamed: boolean;
}

/** Sends the groups of a step to the service when they end, if it stores single groups. */
export class GroupSender<Schema extends z.ZodType, Outcome> {
  readonly #run: RunContext<Schema, Outcome>;
  readonly #step: number;
  readonly #ending = new AbortController();
  /** Ends what is sent in the background. */
  readonly #signal: AbortSignal;
  readonly #queue = new PQueue({ concurrency });
  /** By model and index of the group. */
  readonly #stored = new Map<string, Sent>();

  constructor(run: RunContext<Schema, Outcome>, step: number) {
    this.#run = run;
    this.#step = step;
    this.#signal = AbortSignal.any([run.signal, this.#ending.signal]);
  }

  /**
   * Begins to send an ended group. Failures are found when the group is needed. `journaled`: resolves when the journal
   * has it.
   */
  begin(group: RolloutGroup, journaled?: Promise<void>): void {
    if (!this.#run.storesGroups) return;
    const parts = this.#partsOf(group).map(({ model, own }) => this.#store(model, own, this.#signal));
    Promise.all([...parts, journaled]).then(
      () => group.release(),
      () => undefined,
    );
  }

  /**
   * Waits until the service has all groups of a step.
   * @param onReplaced Called with each group of which the service has refused trajectories: their rollouts have failed.
   * @returns The groups with what the service has accepted.
   */
  async settle<Scenario>(
    result: GroupsResult<Scenario>,
    onReplaced: (group: RolloutGroup<Scenario>) => Promise<void>,
  ): Promise<GroupsResult<Scenario>> {
    if (!this.#run.storesGroups || this.#run.signal.aborted) return result;
    const groups = await Promise.all(
      result.groups.map(async (group) => {
        const settled = await this.#settleGroup(group);
        if (settled !== group) await onReplaced(settled);
        settled.release();
        return settled;
      }),
    );
    return { ...result, groups, counts: countRollouts(groups.flatMap(({ rollouts }) => rollouts)) };
  }

  /** The groups as a job or log of a model gets them. Sends the groups that are not stored yet. */
  async groupsFor(
    model: ModelHandle,
    groups: readonly RolloutGroup[],
    signal: AbortSignal,
  ): Promise<GroupsToSend> {
    if (!this.#run.storesGroups) return groups.map((group) => group.toTrajectoryGroup());
    const stored = await Promise.all(groups.map((group) => this.#store(model, group, signal)));
    for (const { index } of groups) {
      const known = this.#stored.get(keyOf(model, index));
      if (!known) continue;
      known.at = Date.now();
      known.isNamed = true;
    }
    return stored;
  }

  /** Ends what is still being sent. */
  async end(): Promise<void> {
    this.#ending.abort();
    await this.#queue.onIdle();
  }

  async #settleGroup<Scenario>(group: RolloutGroup<Scenario>): Promise<RolloutGroup<Scenario>> {
    for (const { model, own } of this.#partsOf(group))
      try {
        await this.#store(model, own, this.#signal);
      } catch (error) {
        // No trajectory can be left out of a group that was accepted before, or that has none left.
        if (!isRefusal(error) || group.isReleased || own.trajectories.length === 0) throw error;
        this.#forgetGroup(group);
        return this.#settleGroup(this.#withoutRefused(group, own, error));
      }
    return group;
  }

  /** One group for each seat that is trained or logged, with the model that it belongs to. */
  #partsOf(group: RolloutGroup): { model: ModelHandle; own: RolloutGroup }[] {
    return group.bySeat().flatMap((own) => {
      const learner = this.#run.learners.find((one) => one.plays(own));
      return learner ? [{ model: learner.model, own }] : [];
    });
  }

  #store(model: ModelHandle, group: RolloutGroup, signal: AbortSignal): Promise<StoredGroup> {
    const key = keyOf(model, group.index);
    const known = this.#stored.get(key);
    if (known && Date.now() - known.at < freshMs[known.isNamed ? 'named' : 'unnamed']) return known.sending;
    const sending = this.#queue.add(async () => {
      const whole = group.isReleased ? await this.#run.directory.readGroup(this.#step, group.index) : group;
      return sendGroup({ model, group: whole.toTrajectoryGroup(), signal }, this.#run.state.groupForm);
    });
    this.#stored.set(key, { sending, at: Date.now(), isNamed: false });
    // A repeat may succeed, for example after a stop, with the time that is left for a log.
    sending.catch(() => {
      if (this.#stored.get(key)?.sending === sending) this.#stored.delete(key);
    });
    return sending;
  }

  /** The group in which the rollouts of refused trajectories have failed: of that which the error names, or of all. */
  #withoutRefused<Scenario>(
    group: RolloutGroup<Scenario>,
    own: RolloutGroup,
    error: RequestError,
  ): RolloutGroup<Scenario> {
    const named = own.trajectories[Number(/\btrajectories\.(\d+)/.exec(error.detail)?.[1] ?? Number.NaN)];
    const refused = named ? [named] : own.trajectories;
    const message = `The service cannot train on the trajectory: ${error.detail}`;
    const rollouts = group.rollouts.map((rollout) =>
      rollout.status === 'completed' && trajectoriesOf(rollout).some((one) => refused.includes(one))
        ? failedCopy(rollout, { code: 'refused_by_service', message })
        : rollout,
    );
    const { rollouts: settings, settings: options } = this.#run;
    const droppedBecause =
      group.droppedBecause ?? whyDropped(settings.groupStrategy, rollouts, options.rolloutsPerGroup);
    return new RolloutGroup<Scenario>({ ...group, rollouts, droppedBecause });
  }

  #forgetGroup(group: RolloutGroup): void {
    for (const { model, own } of this.#partsOf(group)) this.#stored.delete(keyOf(model, own.index));
  }
}

const keyOf = (model: ModelHandle, index: number) => `${withoutStep(model.name)} ${index}`;

/** Whether the service cannot train on a group, whenever it is sent. */
const isRefusal = (error: unknown): error is RequestError =>
  isRequestError(error) &&
  ['unprocessable', 'context_length_exceeded', 'payload_too_large'].includes(error.code);

/** The rollout without its reward, whose sealed trajectories stay as they are. */
function failedCopy(
  { index, attempt, seed, durationMs, seats, trajectory }: Rollout,
  failure: RolloutFailure,
): Rollout {
  const copies = seats?.map((seat) => ({ ...seat, trajectory: withoutReward(seat.trajectory) }));
  const own = seats?.findIndex((seat) => seat.trajectory === trajectory) ?? -1;
  return {
    index,
    attempt,
    seed,
    durationMs,
    status: 'failed',
    failure,
    ...(copies ? { seats: copies } : {}),
    trajectory: copies?.[own]?.trajectory ?? withoutReward(trajectory),
  };
}

function withoutReward(trajectory: Trajectory): Trajectory {
  const { reward: _, ...record } = toTrajectoryRecord(trajectory);
  const copy = fromTrajectoryRecord(JSON.parse(JSON.stringify(record)));
  copy.seal();
  return copy;
}
