import type { InferenceSession } from 'onnxruntime-common';
import type { TokenLogprob } from '../../engine.ts';
import { maskedLogit } from '../graphs/head-graphs.ts';
import { uniformSteps } from '../graphs/token-choices.ts';
import type { Feeds, Runtime } from '../runtime.ts';

/** A token for the graph to choose, from the softmax of the legal logits divided by the temperature. */
export interface Draw {
  /** Ids, ascending. The mask is made anew only for another array. */
  legal: Int32Array;
  /** 0: the likeliest token, with its log-probability at temperature 1. */
  temperature: number;
  /** In [0, 1): chooses the token, unless the temperature is 0. */
  uniform: number;
  /** Number of likeliest tokens to return. */
  top: number;
}

/** The token that a graph chose. */
export interface Drawn {
  token: number;
  /** NaN if the logits are. */
  logprob: number;
  /** Likeliest first. */
  top: TokenLogprob[];
}

/** The inputs of `outputChoices`, with the memory of the masks, which most steps use again. */
export class DrawFeeds {
  readonly #runtime: Runtime;
  readonly #vocabularySize: number;
  #masks = new Float32Array(0);
  /** The legal tokens for which each row of the masks was written. */
  #written: (Int32Array | null)[] = [];

  constructor(runtime: Runtime, vocabularySize: number) {
    this.#runtime = runtime;
    this.#vocabularySize = vocabularySize;
  }

  /** `draws`: one for each row; null for the rows whose logits are needed. */
  feeds(draws: readonly (Draw | null)[]): Feeds {
    const rows = draws.length;
    const ranked = draws.flatMap((draw, row) => (draw && rankedOf(draw) > 0 ? [row] : []));
    const whole = draws.flatMap((draw, row) => (draw ? [] : [row]));
    const integers = (values: readonly number[], dimensions = [values.length]) =>
      this.#runtime.integer(values, dimensions);
    const scales = Float32Array.from(draws, (draw) => 1 / (draw?.temperature || 1));
    return {
      inverse_temperature: this.#runtime.float(scales, [rows, 1]),
      token_mask: this.#mask(draws),
      uniforms: integers(
        draws.map((draw) => Math.floor((draw?.uniform ?? 0) * uniformSteps)),
        [rows, 1],
      ),
      // The operator of the likeliest tokens does not take zero rows.
      ranked: integers(ranked.length > 0 ? ranked : [0]),
      count: integers([draws.reduce((most, draw) => Math.max(most, draw ? rankedOf(draw) : 0), 0)]),
      whole: integers(whole),
    };
  }

  /** What the graph chose for each of `draws`; null where the logits were needed. */
  read(draws: readonly (Draw | null)[], outputs: InferenceSession.OnnxValueMapType): (Drawn | null)[] {
    const values = (name: string) => outputs[name]?.data as Float32Array;
    const [drawn, ids] = [values('drawn'), values('likeliest')];
    const [logits, chances] = [values('likeliest_logits'), values('likeliest_probabilities')];
    const count = outputs.likeliest?.dims[1] as number;
    let rank = 0;
    return draws.map((draw, row) => {
      if (!draw) return null;
      const ranked: TokenLogprob[] = [];
      if (rankedOf(draw) > 0) {
        const offset = rank++ * count;
        const shift = (logits[offset] as number) - Math.log(chances[offset] as number);
        for (let at = offset; at < offset + rankedOf(draw); at++)
          ranked.push({ token: ids[at] as number, logprob: (logits[at] as number) - shift });
      }
      const top = ranked.slice(0, draw.top);
      const [likeliest] = ranked;
      if (draw.temperature === 0 && likeliest) return { ...likeliest, top };
      const [token, probability] = [drawn[row * 2] as number, drawn[row * 2 + 1] as number];
      return { token, logprob: Math.log(probability), top };
    });
  }

  /** One mask if all rows have the same. */
  #mask(draws: readonly (Draw | null)[]) {
    const legal = draws.map((draw) => draw?.legal ?? null);
    const different = [...new Set(legal.filter((one) => one !== null))];
    const wanted = different.length > 1 ? legal : [different[0] ?? null];
    const size = this.#vocabularySize;
    if (this.#masks.length < wanted.length * size) {
      this.#masks = new Float32Array(wanted.length * size);
      this.#written = [];
    }
    for (const [row, tokens] of wanted.entries()) {
      if (!tokens || this.#written[row] === tokens) continue;
      const offset = row * size;
      this.#masks.fill(maskedLogit, offset, offset + size);
      for (let at = 0; at < tokens.length; at++) this.#masks[offset + (tokens[at] as number)] = 0;
      this.#written[row] = tokens;
    }
    return this.#runtime.float(this.#masks.subarray(0, wanted.length * size), [wanted.length, size]);
  }
}

/** How many of the most likely tokens a draw needs. */
const rankedOf = ({ legal, temperature, top }: Draw) =>
  Math.min(legal.length, Math.max(top, temperature === 0 ? 1 : 0));
