/**
 * Size of the long tests that draw at random or hold a load: `MARTINGALE_TEST_SCALE=20` makes them 20 times as large.
 */
export const testScale = Number(process.env.MARTINGALE_TEST_SCALE ?? 1);

/** Seed of the tests that draw at random: `MARTINGALE_TEST_SEED=7` draws others. Default 1. */
export const testSeed = Number(process.env.MARTINGALE_TEST_SEED ?? 1);
