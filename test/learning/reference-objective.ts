/**
 * What a reinforcement-learning job minimises, in float64, written from the formulas of the published interface alone:
 * nothing is shared with src. The objective is a function of the log-probabilities l of a job's tokens in which every
 * stopped gradient is frozen at the l that the trainer's weights give, so that its differences are the gradient to
 * expect.
 */

export interface ReferenceToken {
  /** the log-probability that the client sends, or null */
  sampled: number | null;
  /** l under the weights being trained */
  current: number;
  /** log-probability under the weights of the KL penalty's reference */
  reference?: number;
  /** entropy of the distribution it was sampled from */
  entropy?: number;
  /** credit of the token's choice; null: its trajectory's reward. Each choice has one token. */
  credit?: number | null;
}

export interface ReferenceTrajectory {
  reward: number;
  /** the tokens sampled in each history */
  histories: ReferenceToken[][];
}

/** An `experimental_config` of a request: null and absent are the same. */
export type ReferenceConfig = Record<string, unknown>;

export interface Objective {
  /** The trained tokens, in order. */
  tokens: ReferenceToken[];
  /** The objective at these log-probabilities l. */
  at(l: number[]): number;
}

const clip = (x: number, low: number, high: number) => (x < low ? low : x > high ? high : x);
const mean = (values: number[]) => values.reduce((a, b) => a + b, 0) / values.length;

export function referenceObjective(groups: ReferenceTrajectory[][], json: ReferenceConfig): Objective {
  const option = <T>(name: string, fallback: T): T => (json[name] ?? fallback) as T;
  const ppo = option('ppo', option<string>('loss_fn', 'cispo') === 'ppo');
  const e = option('epsilon', ppo ? 0.2 : 1);
  const eHigh = option('epsilon_high', ppo ? e : 4);
  const b = option('advantage_balance', 0);
  const c = option<number | null>('max_negative_advantage_importance_sampling_weight', null);
  const tau = option('vendor_k2_tau', option('kimi_k2_tau', 0));
  const precalculate = option('precalculate_logprobs', false);
  const level = option<string>('importance_sampling_level', 'token');
  const C = option<number | null>('truncated_importance_sampling', null);
  const beta = option('kl_penalty_coef', 0);
  const isTaught = option<string | null>('kl_penalty_reference_model', null) !== null && beta > 0;
  const fromSample = option<string>('kl_penalty_source', 'current_learner') === 'sample';
  const bonus = option('entropy_coefficient', 0);

  // Returns R of the choices: A = (R - m) / (s + 1e-6), then the balance.
  const trajectories = groups.flatMap((group) => {
    const over = (f: (R: number) => number) =>
      mean(
        group.map((t) => {
          const tokens = t.histories.flat();
          const returns = tokens.length === 0 ? [t.reward] : tokens.map(({ credit }) => credit ?? t.reward);
          return mean(returns.map(f));
        }),
      );
    const m = over((R) => R);
    const s = Math.sqrt(over((R) => (R - m) ** 2));
    return group.map((t) => {
      const advantageOf = ({ credit }: ReferenceToken) => {
        let A = (credit ?? t.reward) - m;
        if (option('scale_rewards', true)) A /= s + 1e-6;
        if (b > 0 && A < 0) A *= 1 - b;
        if (b < 0 && A > 0) A *= 1 + b;
        return Math.abs(A) < 1e-9 ? 0 : A;
      };
      // A token without an alternative is not a decision.
      const sequences = t.histories.map((tokens) =>
        tokens.filter((token) => token.sampled !== 0).map((token) => ({ token, A: advantageOf(token) })),
      );
      return { sequences };
    });
  });
  interface Advantaged {
    token: ReferenceToken;
    A: number;
  }
  const hasSignal = ({ sequences }: { sequences: Advantaged[][] }) =>
    sequences.flat().some(({ A }) => A !== 0);
  const count = ({ sequences }: { sequences: Advantaged[][] }) => sequences.flat().length;
  if (option('normalize_advantages', false)) {
    // w = 1 / (tokens of the trajectory), scaled to mean 1 over the trainable tokens; A = A / mean(|A| * w).
    const trainable = trajectories.filter(hasSignal);
    const each = trainable.flatMap((t) => t.sequences.flat().map(({ A }) => ({ A, w: 1 / count(t) })));
    const meanW = mean(each.map(({ w }) => w));
    const scale = mean(each.map(({ A, w }) => Math.abs(A) * (w / meanW)));
    if (trainable.length > 0)
      for (const t of trajectories) for (const one of t.sequences.flat()) one.A /= scale;
  }

  // All trajectories of the job have the same weight, including those that do not train.
  interface Placed extends Advantaged {
    w: number;
  }
  const sequences: Placed[][] = trajectories
    .filter((t) => hasSignal(t) || ((bonus > 0 || isTaught) && count(t) > 0))
    .flatMap((t) => {
      const w = 1 / (trajectories.length * count(t));
      return t.sequences.map((tokens) => tokens.map((one) => ({ ...one, w })));
    })
    .filter((tokens) => tokens.length > 0);
  const tokens = sequences.flat().map(({ token }) => token);

  // k = stop(l_source - l_reference); A = A + beta * (mean(k) - k), and A - beta * k with a teacher: the derivative of its
  // reverse KL at the tokens, sampled by the weights being trained, is then that of sum(k * l).
  const k = ({ sampled, current, reference = 0 }: ReferenceToken) =>
    (fromSample ? (sampled ?? current) : current) - reference;
  const meanK = beta === 0 || isTaught ? 0 : mean(tokens.map(k));

  const l0 = ({ sampled, current }: ReferenceToken) => (precalculate ? current : (sampled ?? current));
  const ratios = (sequence: Placed[], l: number[]) => {
    const d = sequence.map(({ token }, i) => (l[i] as number) - l0(token));
    const m = mean(d);
    return d.map((one) => {
      if (level === 'sequence') return Math.exp(m);
      if (level === 'average') return (Math.exp(one) + Math.exp(m)) / 2;
      // the root of the product of exp(d) and exp(m)
      if (level === 'geometric_average') return Math.exp((one + m) / 2);
      return Math.exp(one);
    });
  };
  const bound = (ratio: number) => {
    let r = c === null ? ratio : Math.min(ratio, c);
    if (option('mask_prob_ratio', false) && !(1 - e < r && r < 1 + eHigh)) r = 0;
    return r;
  };

  const sequenceLoss = (sequence: Placed[], l: number[]) => {
    const frozen = ratios(
      sequence,
      sequence.map(({ token }) => token.current),
    );
    const moving = ratios(sequence, l);
    return sequence.reduce((sum, { token, A: advantage, w }, i) => {
      let A = advantage - tau * (token.current - l0(token));
      if (beta !== 0) A += beta * (meanK - k(token));
      const r = bound(moving[i] as number);
      let L = ppo
        ? -Math.min(r * A, clip(r, 1 - e, 1 + eHigh) * A)
        : -clip(bound(frozen[i] as number), 1 - e, 1 + eHigh) * A * (l[i] as number);
      if (C !== null) {
        const sampler = token.sampled ?? token.current;
        const rho = precalculate ? Math.exp(token.current - sampler) : (frozen[i] as number);
        L *= Math.min(rho, C);
      }
      return sum + w * (L - bonus * (token.entropy ?? 0));
    }, 0);
  };

  return {
    tokens,
    at: (l) => {
      let at = 0;
      return sequences.reduce((sum, sequence) => {
        const own = l.slice(at, at + sequence.length);
        at += sequence.length;
        return sum + sequenceLoss(sequence, own);
      }, 0);
    },
  };
}

/** The loss at the trainer's log-probabilities. */
export const referenceLoss = (groups: ReferenceTrajectory[][], config: ReferenceConfig): number => {
  const { tokens, at } = referenceObjective(groups, config);
  return at(tokens.map(({ current }) => current));
};

/**
 * The derivative by each token's l from below and from above, by one-sided differences of second order. They agree but
 * where a clip, a cap or a mask begins.
 */
export function referenceSlopes({ tokens, at }: Objective): { below: number; above: number }[] {
  const h = 1e-5;
  const here = tokens.map(({ current }) => current);
  return tokens.map((_, index) => {
    const moved = (by: number) => at(here.map((value, i) => (i === index ? value + by : value)));
    const towards = (step: number) => (-3 * moved(0) + 4 * moved(step) - moved(2 * step)) / (2 * step);
    return { below: towards(-h), above: towards(h) };
  });
}
