import { LanguageError } from '../error.ts';
import { MAXIMUM_NODES } from './byte-graph.ts';

/** A node to continue at, and where that node's own rule returns to. */
interface Place {
  node: number;
  returns: Returns;
}

/** Where a called rule may continue once it ends. Equal ones are the same object. */
export interface Returns {
  readonly open: false;
  readonly id: number;
  readonly places: readonly Place[];
  /** The text may end. */
  readonly end: boolean;
}

/** A call whose return places are not all known yet. */
export interface OpenCall {
  readonly open: true;
  readonly id: number;
  readonly places: { node: number; returns: Returns | OpenCall }[];
  /** It returns where these return, being the last thing their rules call. */
  readonly tails: (Returns | OpenCall)[];
  /** The rule has been found to read nothing. */
  returned: boolean;
  closed: Returns | null;
}

export const END_OF_TEXT: Returns = { open: false, id: 0, places: [], end: true };

/** A number that names a node with its returns; exact for some ten thousand million calls. */
export const placeKey = (node: number, returns: Returns | OpenCall): number =>
  returns.id * MAXIMUM_NODES + node;

/** Makes calls and finds the equal ones among them again. */
export class Calls {
  #count = 1;
  #known = new Map<string, Returns>();

  open(): OpenCall {
    return { open: true, id: this.#count++, places: [], tails: [], returned: false, closed: null };
  }

  forget(): void {
    this.#known = new Map();
  }

  /** The call with all its places of return, which by now are known. */
  close(call: Returns | OpenCall): Returns {
    if (!call.open) return call;
    const path: OpenCall[] = [call];
    const onPath = new Set(path);
    for (let top = path.at(-1); top; top = path.at(-1)) {
      const sources = top.closed ? [] : withTails(top);
      const waiting = firstOpen(sources);
      if (!waiting) {
        top.closed ??= this.#join(sources);
        onPath.delete(top);
        path.pop();
      } else if (onPath.has(waiting))
        throw new LanguageError(
          'grammar_invalid',
          'the grammar has a rule that begins with itself (left recursion): write it as a repetition',
        );
      else {
        onPath.add(waiting);
        path.push(waiting);
      }
    }
    return closed(call);
  }

  #join(sources: Iterable<Returns | OpenCall>): Returns {
    const places = new Map<number, Place>();
    let end = false;
    for (const source of sources) {
      for (const { node, returns } of source.places) {
        const place = { node, returns: closed(returns) };
        places.set(placeKey(node, place.returns), place);
      }
      if (!source.open && source.end) end = true;
    }
    const key = `${Float64Array.from(places.keys()).sort().join(' ')}${end ? ' end' : ''}`;
    let joined = key === ' end' ? END_OF_TEXT : this.#known.get(key);
    if (!joined) {
      joined = { open: false, id: this.#count++, places: [...places.values()], end };
      this.#known.set(key, joined);
    }
    return joined;
  }
}

/** A call and all that it returns with. */
function withTails(call: OpenCall): Set<Returns | OpenCall> {
  const all = new Set<Returns | OpenCall>([call]);
  for (const source of all) if (source.open) for (const tail of source.tails) all.add(tail);
  return all;
}

/** A call that must be closed before the call these belong to. */
function firstOpen(sources: Iterable<Returns | OpenCall>): OpenCall | null {
  for (const source of sources)
    if (source.open)
      for (const { returns } of source.places) if (returns.open && !returns.closed) return returns;
  return null;
}

function closed(call: Returns | OpenCall): Returns {
  const returns = call.open ? call.closed : call;
  if (!returns) throw new Error('the call is still open');
  return returns;
}
