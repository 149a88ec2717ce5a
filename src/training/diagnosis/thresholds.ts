/** Where each alarm begins. Means are taken over the last steps, so that one odd step raises nothing. */
export const alarmThresholds = {
  /** Steps whose means are what the run is now. */
  recentSteps: 5,
  /** First steps of the run, whose means are what it began with. */
  startSteps: 5,
  /** An alarm that was raised is raised again only after it has been silent for as many steps in a row. */
  silentSteps: 5,
  collapse: {
    /** Entropy below this share of the start's, */
    entropyShare: 0.1,
    /** with a deviation of rewards below this share of the start's, or no signal in groups, */
    deviationShare: 0.2,
    /** while the share of successes is below this. */
    success: 0.9,
  },
  noSignal: {
    /** Share of groups whose rewards differ. */
    groups: 0.05,
    /** Share of the compared groups that have to agree on what they are: solved, say. */
    agreeing: 0.9,
    /** Share of the groups that must have two completed rollouts. */
    comparable: 0.5,
    /** Solved scenarios are no longer solved when the share of successes falls below this. */
    success: 0.5,
  },
  greedySampling: {
    /** Share of a step's compared groups whose calls were all sampled at temperature 0. */
    groups: 0.5,
  },
  toolErrors: {
    /** A tool is told of from as many uses on, over the last steps, */
    uses: 20,
    /** where at least this share of them threw, over as many steps as are recent; at once where all did. */
    share: 0.5,
  },
  contextOverflow: {
    /** Share of the rollouts of the last steps that met the end of the context. */
    share: 0.1,
  },
  callsInFlight: {
    /** Share of the rollouts of the last steps whose agent did not wait for its calls. */
    share: 0.05,
  },
  rewardUpSuccessFlat: {
    /** Steps that the run must have. Its first and its last quarter are compared. */
    steps: 20,
    /** Least rise of the reward, in standard deviations of the first quarter's rewards. */
    rise: 0.5,
    /** Most rise of the share of successes. */
    success: 0.02,
    /** Largest standard error of that rise: with fewer rollouts it says nothing. */
    error: 0.05,
    /** Share of successes from which there is not much left to rise. */
    solved: 0.95,
  },
  rewardUpValidationDown: {
    /** Evaluations in a row, at least, over which the validation falls. */
    evaluations: 3,
    /** Least rise of the training reward and least fall of the validation, as shares of the training reward's range. */
    share: 0.1,
  },
  repeatedText: {
    /** Share of four-token sequences that stood earlier in the same reply, */
    share: 0.2,
    /** and as many times the start's. */
    timesStart: 2,
  },
  mismatch: {
    /** Nats between sampler and trainer with the same weights: more is said, */
    notable: 1e-4,
    /** and more than this is wrong. */
    wrong: 1e-2,
  },
  clipped: {
    /** Share of tokens whose importance ratio was clipped, masked or capped. */
    share: 0.2,
  },
  stale: {
    /** Share of the run's bound that the mean may reach. */
    shareOfBound: 0.75,
    /** Largest staleness in a run without a bound. */
    withoutBound: 4,
  },
  eventLoopHeld: {
    /** Milliseconds that the event loop was held at once. */
    longestMs: 2000,
  },
  failures: {
    /** Share of the rollouts that failed, over the last steps or in one validation. */
    share: 0.1,
    /** Most that may have failed in a validation by which checkpoints are judged. */
    judgingShare: 0.5,
  },
} as const;

/**
 * Whether checkpoints may be judged by a validation: not where more than half of its rollouts failed, for those that
 * are left are no fair sample.
 */
export const isJudging = ({ failedShare = 0 }: { failedShare?: number }): boolean =>
  failedShare <= alarmThresholds.failures.judgingShare;
