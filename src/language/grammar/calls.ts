import { LanguageError } from '../error.ts';
import { maxNodes } from './byte-graph.ts';

/** A node to continue at, and where the rule of that node returns to. */
interface ReturnPoint {
  node: number;
  returns: Returns;
}

/** Where a called rule may continue once it ends. Equal values are the same object. */
export interface Returns {
  readonly open: false;
  readonly id: number;
  readonly returnPoints: readonly ReturnPoint[];
  /** Whether the text may end. */
  readonly end: boolean;
}

/** A call whose return points are not all known yet. */
export interface OpenCall {
  readonly open: true;
  readonly id: number;
  readonly returnPoints: { node: number; returns: Returns | OpenCall }[];
  /** The call also returns where these return, because it is the last step of their rules. */
  readonly tailCalls: (Returns | OpenCall)[];
  /** Whether the rule is known to match the empty text. */
  returned: boolean;
  closed: Returns | null;
}

export const END_OF_TEXT: Returns = { open: false, id: 0, returnPoints: [], end: true };

/** A number that identifies a node with its returns. Exact for some ten thousand million calls. */
export const nodeKey = (node: number, returns: Returns | OpenCall): number => returns.id * maxNodes + node;

/** Creates calls, and finds equal ones again. */
export class Calls {
  #count = 1;
  #known = new Map<string, Returns>();

  open(): OpenCall {
    return { open: true, id: this.#count++, returnPoints: [], tailCalls: [], returned: false, closed: null };
  }

  clear(): void {
    this.#known = new Map();
  }

  /** The call with all its return points. They must be known by now. */
  close(call: Returns | OpenCall): Returns {
    if (!call.open) return call;
    const path: OpenCall[] = [call];
    const onPath = new Set(path);
    for (let top = path.at(-1); top; top = path.at(-1)) {
      const sources = top.closed ? [] : withTailCalls(top);
      const waiting = firstOpen(sources);
      if (!waiting) {
        top.closed ??= this.#merge(sources);
        onPath.delete(top);
        path.pop();
      } else if (onPath.has(waiting))
        throw new LanguageError(
          'grammar_invalid',
          'The grammar has a rule that begins with itself (left recursion). Write it as a repetition.',
        );
      else {
        onPath.add(waiting);
        path.push(waiting);
      }
    }
    return closed(call);
  }

  #merge(sources: Iterable<Returns | OpenCall>): Returns {
    const points = new Map<number, ReturnPoint>();
    let end = false;
    for (const source of sources) {
      for (const { node, returns } of source.returnPoints) {
        const point = { node, returns: closed(returns) };
        points.set(nodeKey(node, point.returns), point);
      }
      if (!source.open && source.end) end = true;
    }
    const key = `${Float64Array.from(points.keys()).sort().join(' ')}${end ? ' end' : ''}`;
    let merged = key === ' end' ? END_OF_TEXT : this.#known.get(key);
    if (!merged) {
      merged = { open: false, id: this.#count++, returnPoints: [...points.values()], end };
      this.#known.set(key, merged);
    }
    return merged;
  }
}

/** A call and all its tail calls, including theirs. */
function withTailCalls(call: OpenCall): Set<Returns | OpenCall> {
  const all = new Set<Returns | OpenCall>([call]);
  for (const source of all) if (source.open) for (const tail of source.tailCalls) all.add(tail);
  return all;
}

/** A call that must be closed before the call of these sources. */
function firstOpen(sources: Iterable<Returns | OpenCall>): OpenCall | null {
  for (const source of sources)
    if (source.open)
      for (const { returns } of source.returnPoints) if (returns.open && !returns.closed) return returns;
  return null;
}

function closed(call: Returns | OpenCall): Returns {
  const returns = call.open ? call.closed : call;
  if (!returns) throw new Error('the call is still open');
  return returns;
}
