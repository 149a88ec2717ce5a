/** The options of a run, those that differ from the defaults first. */
export function Config({ config }: { config: Record<string, unknown> }) {
  const changed = new Set(Object.keys(Object(config.changed)));
  const fields = Object.entries(config).filter(([name, value]) => name !== 'changed' && value !== null);
  const own = fields.filter(([name]) => changed.has(name));
  const others = fields.filter(([name]) => !changed.has(name));
  return (
    <details class="panel">
      <summary>Configuration</summary>
      <h3 class="panel-head">Chosen</h3>
      <Fields of={own} />
      <h3 class="panel-head">By default, or found at the start</h3>
      <Fields of={others} />
    </details>
  );
}

function Fields({ of }: { of: readonly (readonly [string, unknown])[] }) {
  return (
    <dl class="config">
      {of.map(([name, value]) => (
        <>
          <dt key={name}>{name}</dt>
          <dd class="mono">{typeof value === 'string' ? value : JSON.stringify(value)}</dd>
        </>
      ))}
    </dl>
  );
}
