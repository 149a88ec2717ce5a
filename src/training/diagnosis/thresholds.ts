/** Thresholds of the alarms. Figures are means over recent steps, so that a single odd step raises no alarm. */
export const alarmThresholds = {
  /** Number of recent steps for means. */
  recentSteps: 5,
  /** Number of first steps whose means describe the start of the run. */
  startSteps: 5,
  /** An alarm is raised again only after this many steps in a row without it. */
  silentSteps: 5,
  collapse: {
    /** All three must hold: entropy is below this share of that at the start; */
    entropyShare: 0.1,
    /** deviation of rewards is below this share of that at the start, or groups have no signal; */
    deviationShare: 0.2,
    /** share of successes is below this. */
    success: 0.9,
  },
  noSignal: {
    /** Minimum share of groups whose rewards differ. */
    groups: 0.05,
    /** Share of the compared groups that must agree on a cause, for example solved. */
    agreeing: 0.9,
    /** Minimum share of the groups with two completed rollouts. */
    comparable: 0.5,
    /** Solved scenarios count as unsolved again when the share of successes falls below this. */
    success: 0.5,
  },
  greedySampling: {
    /** Share of a step's compared groups whose calls were all sampled at temperature 0. */
    groups: 0.5,
  },
  rewardAgainstSuccess: {
    /** Minimum number of groups over the recent steps in which some rollouts succeeded and others did not. */
    groups: 8,
    /** Share of them in which those without success earned more. */
    share: 0.25,
  },
  toolErrors: {
    /** Minimum number of uses over the recent steps. */
    uses: 20,
    /** Share of uses that fail, once there are `recentSteps` steps. Before that, all uses must fail. */
    share: 0.5,
  },
  contextOverflow: {
    /** Share of the recent rollouts that exceeded the context. */
    share: 0.1,
  },
  callsInFlight: {
    /** Share of the recent rollouts whose agent returned with calls in flight. */
    share: 0.05,
  },
  rewardUpSuccessFlat: {
    /** Minimum number of steps. The first and last quarter of them are compared. */
    steps: 20,
    /** Minimum rise of the reward, in standard deviations of rewards in the first quarter. */
    rise: 0.5,
    /** Maximum rise of the share of successes. */
    success: 0.02,
    /** Maximum standard error of that rise; above it, there are too few rollouts to judge. */
    error: 0.05,
    /** No alarm at or above this share of successes, where little rise is left. */
    solved: 0.95,
  },
  rewardUpValidationDown: {
    /** Minimum number of consecutive falling evaluations. */
    evaluations: 3,
    /** Minimum rise of the training reward and fall of the validation, as shares of the training reward's range. */
    share: 0.1,
  },
  repeatedText: {
    /** Share of four-token sequences that repeat an earlier one of the same reply, */
    share: 0.2,
    /** and how many times the share at the start it must exceed. */
    timesStart: 2,
  },
  mismatch: {
    /** Difference of sampler and trainer with the same weights, in nats, above which a notable mismatch is reported. */
    notable: 1e-4,
    /** Difference above which the mismatch counts as an error. */
    wrong: 1e-2,
  },
  clipped: {
    /** Share of tokens whose importance ratio was clipped, masked or capped. */
    share: 0.2,
  },
  stale: {
    /** Share of the run's bound that mean staleness may reach. */
    shareOfBound: 0.75,
    /** Maximum staleness in a run without a bound. */
    withoutBound: 4,
  },
  eventLoopHeld: {
    /** Time in which code of the process held the event loop in one step, in milliseconds, */
    sumMs: 2000,
    /** and as a share of the step's time. */
    share: 0.1,
  },
  failures: {
    /** Share of the rollouts that failed, over the recent steps or in one validation. */
    share: 0.1,
    /** Maximum share of failed rollouts in a validation that ranks checkpoints. */
    judgingShare: 0.5,
  },
} as const;

/**
 * Whether a validation may rank checkpoints. It may not if more than half of its rollouts failed, because the rest is
 * not a fair sample.
 */
export const canRank = ({ failedShare = 0 }: { failedShare?: number }): boolean =>
  failedShare <= alarmThresholds.failures.judgingShare;
