import { ModelText } from '../rollout/model-text.tsx';

/** Options that `train` needs, so that they have no default. */
const needed = ['environment', 'modelAsked', 'scenarios', 'steps', 'groupsPerStep', 'rolloutsPerGroup'];

/** What the run found or made itself. */
const found = ['model', 'modelId', 'baseModel', 'rewards', 'versions', 'scenarioSchema', 'started'];

/** The options of a run: those that somebody chose, those that are as without a choice, and what else it wrote down. */
export function Config({ config }: { config: Record<string, unknown> }) {
  const chosen = new Set([...needed, ...Object.keys(Object(config.changed))]);
  const fields = Object.entries(config).filter(([name, value]) => name !== 'changed' && value !== null);
  const parts = {
    Chosen: fields.filter(([name]) => chosen.has(name)),
    'At the default': fields.filter(([name]) => !chosen.has(name) && !found.includes(name)),
    'Found at the start': fields.filter(([name]) => !chosen.has(name) && found.includes(name)),
  };
  return (
    <details class="panel">
      <summary>Configuration</summary>
      {Object.entries(parts).map(
        ([title, of]) =>
          of.length > 0 && (
            <section key={title} aria-label={title}>
              <h3 class="panel-head">{title}</h3>
              <Fields of={of} />
            </section>
          ),
      )}
    </details>
  );
}

function Fields({ of }: { of: readonly (readonly [string, unknown])[] }) {
  return (
    <dl class="config">
      {of.map(([name, value]) => (
        <>
          <dt key={name}>{name}</dt>
          <dd class="mono">
            <ModelText text={typeof value === 'string' ? value : JSON.stringify(value)} limit={600} />
          </dd>
        </>
      ))}
    </dl>
  );
}
