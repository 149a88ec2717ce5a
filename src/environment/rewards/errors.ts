import { MartingaleError } from '../../contract/index.ts';

interface RewardErrorOptions extends ErrorOptions {
  /** Default `failed`. */
  how?: 'failed' | 'timeout';
}

/**
 * A reward function threw, gave something other than a finite number (`reward_failed`), or did not answer in time
 * (`reward_timeout`). `cause` is what it threw.
 */
export class RewardError extends MartingaleError {
  readonly reward: string;

  constructor(reward: string, what: string, { how = 'failed', cause }: RewardErrorOptions = {}) {
    super(`reward_${how}`, `The reward "${reward}" ${what}. The rollout counts as failed.`, { cause });
    this.reward = reward;
  }
}

/**
 * A group reward threw, gave something other than one finite number for each member (`group_reward_failed`), or did
 * not answer in time (`group_reward_timeout`). `cause` is what it threw.
 */
export class GroupRewardError extends MartingaleError {
  readonly reward: string;

  constructor(reward: string, what: string, { how = 'failed', cause }: RewardErrorOptions = {}) {
    super(
      `group_reward_${how}`,
      `The group reward "${reward}" ${what}. The group's completed rollouts count as failed.`,
      { cause },
    );
    this.reward = reward;
  }
}
