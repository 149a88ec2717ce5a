import { market, marketScenarios } from '../../../recipes/market/environment.ts';

export default market;
export const scenarios = marketScenarios({ seed: 1, count: 4 });
