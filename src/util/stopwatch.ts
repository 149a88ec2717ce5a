/** Measures wall-clock seconds: `lap` since the last lap, `total` since the start. */
export function startStopwatch(): { lap: () => number; total: () => number } {
  const start = performance.now();
  let last = start;
  return {
    lap: () => {
      const now = performance.now();
      const seconds = (now - last) / 1000;
      last = now;
      return seconds;
    },
    total: () => (performance.now() - start) / 1000,
  };
}
