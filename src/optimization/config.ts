import type { z } from 'zod';
import { type TextSet, titleOfScenario } from '../environment/index.ts';
import { scenarioKeys } from '../evaluation/index.ts';
import { namesOfSeats } from '../rollout/index.ts';
import { sha256 } from '../util/json.ts';
import { RunError } from '../util/run-error.ts';
import { martingaleVersion } from '../util/version.ts';
import type { OptimizeOptions } from './options.ts';

/** The options of a run, for `config.json`. */
export function toConfig<Schema extends z.ZodType, Outcome, Texts extends TextSet>(
  options: OptimizeOptions<Schema, Outcome, Texts>,
  {
    iterations,
    minibatch,
    validated,
    started = new Date().toISOString(),
  }: { iterations: number; minibatch: number; validated: readonly z.output<Schema>[]; started?: unknown },
): Record<string, unknown> {
  const { environment, model, scenarios, texts, reflect, seats } = options;
  const keys = scenarioKeys(validated);
  return {
    started,
    environment: environment.name,
    model: model.name,
    texts: environment.texts,
    improved: texts ?? Object.keys(environment.texts),
    scenarios: { count: scenarios.length, digest: sha256(JSON.stringify(scenarioKeys(scenarios))) },
    validation: validated.map((scenario, at) => ({
      key: keys[at],
      title: environment.titleOf(scenario) ?? titleOfScenario(scenario) ?? keys[at],
    })),
    rewards: environment.definition.rewards,
    seed: options.seed ?? 0,
    minibatch,
    rolloutsPerScenario: options.rolloutsPerScenario ?? 1,
    temperature: options.temperature ?? null,
    ...(seats ? { seats: namesOfSeats(seats) } : {}),
    iterations,
    reflect:
      typeof reflect === 'function'
        ? reflect.name || 'a function'
        : typeof reflect === 'string'
          ? reflect
          : reflect.modelId,
    budget: options.budget ?? null,
    prices: options.prices ?? null,
    reflectPrices: options.reflectPrices ?? null,
    versions: { martingale: martingaleVersion, node: process.versions.node, engine: null },
  };
}

/** Options that may change when a run is resumed: they decide how far the search goes, not how candidates compare. */
const changeable = new Set([
  'started',
  'iterations',
  'reflect',
  'budget',
  'prices',
  'reflectPrices',
  'versions',
]);

/** @throws RunError that names all options that have changed. */
export function checkConfig(
  path: string,
  saved: Record<string, unknown>,
  current: Record<string, unknown>,
): void {
  const shown = (value: unknown) => {
    const text = JSON.stringify(value) ?? 'absent';
    return text.length > 200 ? `${text.slice(0, 200)}…` : text;
  };
  const differences = Object.keys(current)
    .filter((name) => !changeable.has(name) && JSON.stringify(saved[name]) !== JSON.stringify(current[name]))
    .map((name) => `\`${name}\` was ${shown(saved[name])} and is ${shown(current[name])}`);
  if (differences.length > 0)
    throw new RunError(
      'resume_refused',
      `The run in ${path} was started with other options: ${differences.join('; ')}. Use the same options, or start ` +
        'another run.',
    );
}
