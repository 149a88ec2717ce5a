import { type NormName, type Projection, sublayerNorms } from '../checkpoint/tensors.ts';
import type { Value } from '../onnx/graph.ts';
import { isGated } from '../weights/architecture.ts';
import { Attention, type AttentionTape } from './attention.ts';
import { Convolution } from './convolution.ts';
import { applyGate } from './gate.ts';
import type { LayerParts } from './layer-parts.ts';
import { scaled } from './normalization.ts';

/** The values of a layer's forward pass that its backward pass needs. */
type LayerTape = CommonTape & (AttentionTape | ConvolutionTape);

/** The part of the tape that all layers have. */
export interface CommonTape {
  input: Value;
  attentionInverse: Value;
  /** What attention or convolution give, before their last projection. */
  mixed: Value;
  middle: Value;
  mlpInverse: Value;
  /** relu(up(x)) of a squared ReLU, up(x) of a gated MLP. */
  hidden: Value;
  /** gate(x), of a gated MLP. */
  gate?: Value;
  /** The outputs of attention and MLP before their norms. */
  rawAttention?: Value;
  rawAttentionInverse?: Value;
  rawMlp?: Value;
  rawMlpInverse?: Value;
}

/** The part of the tape of a layer with a convolution. */
export interface ConvolutionTape {
  /** Its parts B, C and x side by side, [tokens, 3 * width]. */
  projected: Value;
}

type MixTape = Pick<CommonTape, 'mixed'> & (AttentionTape | ConvolutionTape);

/** A transformer layer, forward and backward: of the tiny models and of checkpoints, on [positions, width]. */
export class Layer {
  readonly #parts: LayerParts;
  readonly #attention: Attention;
  readonly #convolution: Convolution | null;

  constructor(parts: LayerParts) {
    this.#parts = parts;
    this.#convolution = parts.convolution ? new Convolution(parts.convolution) : null;
    this.#attention = new Attention(parts);
  }

  /** The forward pass up to what the backward pass needs; `next` completes it. */
  forward(input: Value): LayerTape {
    const { graph, architecture, linear, norm } = this.#parts;
    const norms = sublayerNorms(architecture);
    const attentionNorm = norm(norms.attention.before).forward(input);
    const mix = this.#mix(attentionNorm.output);
    const added = this.#added(norms.attention.after, linear(this.#outputName).forward(mix.mixed));
    const middle = graph.op('Add', [this.#select(input), added.output]);
    const mlpNorm = norm(norms.mlp.before).forward(middle);
    const { up, gate } = this.#mlpInputs(mlpNorm.output);
    const tape: LayerTape = {
      input,
      attentionInverse: attentionNorm.inverse,
      ...mix,
      middle,
      mlpInverse: mlpNorm.inverse,
      hidden: gate === undefined ? graph.op('Relu', [up]) : up,
    };
    if (gate !== undefined) tape.gate = gate;
    if (added.inverse !== undefined) {
      const rawMlp = this.#mlpOutput(tape);
      const { inverse } = this.#added(norms.mlp.after, rawMlp);
      Object.assign(tape, {
        rawAttention: added.input,
        rawAttentionInverse: added.inverse,
        rawMlp,
        rawMlpInverse: inverse,
      });
    }
    return tape;
  }

  /** What mixes the positions, attention or a convolution, up to its last projection. */
  #mix(normalized: Value): MixTape {
    const { linear } = this.#parts;
    if (this.#convolution) {
      const projected = linear('in_proj').forward(normalized);
      return { projected, mixed: this.#convolution.forward(projected) };
    }
    return this.#attention.forward(normalized);
  }

  get #outputName(): Projection {
    return this.#convolution ? 'out_proj' : 'o_proj';
  }

  /** The attention of queries to keys that a tape has without it. */
  attention(query: Value, key: Value): Value {
    return this.#attention.probabilities(query, key);
  }

  /** The layer's output. */
  next(tape: LayerTape): Value {
    const { graph, architecture } = this.#parts;
    const { after } = sublayerNorms(architecture).mlp;
    const { output } = this.#added(after, tape.rawMlp ?? this.#mlpOutput(tape));
    return graph.op('Add', [tape.middle, output]);
  }

  #mlpOutput({ hidden, gate }: CommonTape): Value {
    const { graph, architecture, linear } = this.#parts;
    const factor = gate === undefined ? hidden : applyGate(graph, architecture, gate).output;
    return linear('down_proj').forward(graph.op('Mul', [factor, hidden]));
  }

  /** What the MLP's first matrices give: what a gate takes, if there is one, and `up`. */
  #mlpInputs(normalized: Value): { up: Value; gate?: Value } {
    const { graph, architecture, linear } = this.#parts;
    if (architecture.joinedGate) {
      const joined = linear('gate_up_proj').forward(normalized);
      const [gate, up] = graph.ops('Split', [joined], { axis: 1, num_outputs: 2 }, 2) as [Value, Value];
      return { up, gate };
    }
    const up = linear('up_proj').forward(normalized);
    return isGated(architecture) ? { up, gate: linear('gate_proj').forward(normalized) } : { up };
  }

  /** What is added to the states: the output of attention or MLP, normalised and scaled as the architecture says. */
  #added(name: NormName | null, input: Value): { input: Value; output: Value; inverse?: Value } {
    const normed = name === null ? { output: input } : this.#parts.norm(name).forward(input);
    return { input, ...normed, output: this.#scaled(normed.output) };
  }

  /** Turns the gradient of what is added to the states into the gradient of the output of attention or MLP. */
  #addedBackward(name: NormName | null, gradient: Value, raw?: Value, inverse?: Value): Value {
    const scaled = this.#scaled(gradient);
    if (name === null || raw === undefined || inverse === undefined) return scaled;
    return this.#parts.norm(name).backward(scaled, raw, inverse);
  }

  #scaled(values: Value): Value {
    const { graph, architecture } = this.#parts;
    return scaled(graph, values, architecture.residualScale);
  }

  /** From dLoss/dnext to dLoss/dinput. */
  backward(gradient: Value, tape: LayerTape): Value {
    const { graph, architecture, linear, norm } = this.#parts;
    const norms = sublayerNorms(architecture);
    const mlpGradient = this.#addedBackward(norms.mlp.after, gradient, tape.rawMlp, tape.rawMlpInverse);
    const mlp = this.#mlpBackward(mlpGradient, tape);
    const middleGradient = graph.op('Add', [gradient, mlp]);
    const outputGradient = this.#addedBackward(
      norms.attention.after,
      middleGradient,
      tape.rawAttention,
      tape.rawAttentionInverse,
    );
    const mixedGradient = linear(this.#outputName).backward(outputGradient, tape.mixed);
    const attentionNorm = norm(norms.attention.before);
    const normalized = attentionNorm.outputOf(tape.input, tape.attentionInverse);
    const fromMix = this.#mixBackward(mixedGradient, normalized, tape);
    const attention = attentionNorm.backward(fromMix, tape.input, tape.attentionInverse);
    return graph.op('Add', [this.#spread(middleGradient), attention]);
  }

  /** Turns the gradient of the mixed values into the gradient of the normalised states. */
  #mixBackward(gradient: Value, normalized: Value, tape: LayerTape): Value {
    const { linear } = this.#parts;
    if ('projected' in tape) {
      const projected = (this.#convolution as Convolution).backward(gradient, tape.projected);
      return linear('in_proj').backward(projected, normalized);
    }
    return this.#attention.backward(gradient, normalized, tape);
  }

  #mlpBackward(gradient: Value, { middle, mlpInverse, hidden, gate }: CommonTape): Value {
    const { graph, architecture, linear, norm } = this.#parts;
    const mlpNorm = norm(sublayerNorms(architecture).mlp.before);
    const down = linear('down_proj');
    let normalizedGradient: Value;
    if (gate === undefined) {
      const squaredGradient = down.backward(gradient, graph.op('Mul', [hidden, hidden]), { scale: 2 });
      const hiddenGradient = graph.op('Mul', [squaredGradient, hidden]);
      normalizedGradient = linear('up_proj').backward(hiddenGradient, mlpNorm.outputOf(middle, mlpInverse));
    } else {
      const { output, slope } = applyGate(graph, architecture, gate);
      const inner = down.backward(gradient, graph.op('Mul', [output, hidden]));
      const normalized = mlpNorm.outputOf(middle, mlpInverse);
      const upGradient = graph.op('Mul', [inner, output]);
      const gateGradient = () => graph.op('Mul', [graph.op('Mul', [inner, hidden]), slope()]);
      if (architecture.joinedGate) {
        const joined = graph.op('Concat', [gateGradient(), upGradient], { axis: 1 });
        normalizedGradient = linear('gate_up_proj').backward(joined, normalized);
      } else {
        const added = linear('up_proj').backward(upGradient, normalized);
        normalizedGradient = linear('gate_proj').backward(gateGradient(), normalized, { added });
      }
    }
    return mlpNorm.backward(normalizedGradient, middle, mlpInverse);
  }

  #select(states: Value): Value {
    return this.#parts.select?.(states) ?? states;
  }

  #spread(gradient: Value): Value {
    return this.#parts.spread?.(gradient) ?? gradient;
  }
}
