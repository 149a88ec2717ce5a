import { stepName } from '../training/index.ts';

/** The name of a file of groups in addresses: `3` for `step-0003`. */
export const whichOf = (name: string): string => {
  const step = /^step-(\d+)$/.exec(name)?.[1];
  return step === undefined ? name : String(Number(step));
};

/** The inverse of `whichOf`. */
export const nameOfWhich = (which: string): string => (/^\d+$/.test(which) ? stepName(Number(which)) : which);

/** Steps by number, then evaluations by name, `before` first and `after` last. */
export function inOrder(names: readonly string[]): string[] {
  const rank = (name: string): [number, number, string] => {
    const number = Number(/\d+$/.exec(name)?.[0] ?? 0);
    if (/^\d+$/.test(name)) return [0, number, ''];
    return [name === 'before' ? 1 : name === 'after' ? 3 : 2, number, name];
  };
  return [...names].sort((a, b) => {
    const [left, right] = [rank(a), rank(b)];
    return left[0] - right[0] || left[1] - right[1] || (left[2] < right[2] ? -1 : 1);
  });
}
