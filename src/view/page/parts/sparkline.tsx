import { largestOf, smallestOf } from '../../../util/extremes.ts';
/** A small curve without axes. Null values are gaps. The number beside it says what the curve says last. */
export function Sparkline({
  values,
  width = 96,
  height = 24,
  label,
}: {
  values: readonly (number | null)[];
  width?: number;
  height?: number;
  label: string;
}) {
  const known = values.filter((value) => value !== null);
  if (known.length === 0) return null;
  const min = smallestOf(known);
  const range = largestOf(known) - min;
  const x = (index: number) =>
    2 + (values.length < 2 ? width - 4 : (index / (values.length - 1)) * (width - 4));
  const y = (value: number) => height - 2 - (range === 0 ? 0.5 : (value - min) / range) * (height - 4);
  let path = '';
  let isOpen = false;
  values.forEach((value, index) => {
    if (value !== null) path += `${isOpen ? 'L' : 'M'}${x(index).toFixed(1)} ${y(value).toFixed(1)}`;
    isOpen = value !== null;
  });
  const last = values.findLastIndex((value) => value !== null);
  return (
    <svg class="sparkline" width={width} height={height} role="img" aria-label={label}>
      <path d={path} fill="none" stroke="currentColor" stroke-width="1.5" stroke-linejoin="round" />
      <circle cx={x(last)} cy={y(values[last] ?? 0)} r="2" fill="currentColor" />
    </svg>
  );
}
