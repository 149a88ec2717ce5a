import type { ServiceDetail, ServiceModel } from '../../api.ts';
import { useApi } from '../api-client.ts';
import { counted, formatNumber, inWords } from '../parts/format.ts';
import { Data, Nothing } from '../parts/states.tsx';
import { Tag } from '../parts/tag.tsx';
import { type PanelProps, setQuery } from '../router.ts';
import { Chat } from './chat.tsx';
import './service.css';

/** A service: its parts, its models with their checkpoints, and a chat with two of them beside each other. */
export function Service({ query }: PanelProps) {
  const loaded = useApi<ServiceDetail>('service');
  return <Data of={loaded}>{(service) => <ServicePanel service={service} query={query} />}</Data>;
}

function ServicePanel({ service, query }: { service: ServiceDetail; query: PanelProps['query'] }) {
  const { address, parts, models, baseModels } = service;
  const names = [...models.flatMap(({ checkpoints }) => checkpoints.map(({ name }) => name)), ...baseModels];
  return (
    <>
      <div class="heading">
        <h1>Service</h1>
        <span class="muted">{address}</span>
      </div>
      <ul class="parts">
        {parts.map(({ name, isWell, text }) => (
          <li key={name}>
            <Tag is={isWell ? 'good' : 'bad'}>{inWords(name)}</Tag> <span class="muted">{text}</span>
          </li>
        ))}
      </ul>
      <Chat names={names} left={query.left ?? names[0] ?? ''} right={query.right ?? names[1] ?? ''} />
      <section class="panel" aria-label="Models">
        <h2 class="panel-head">{counted(models.length, 'model')}</h2>
        {models.length === 0 ? (
          <Nothing title="No model has been trained here yet" />
        ) : (
          models.map((model) => <ModelPart key={model.name} model={model} />)
        )}
      </section>
    </>
  );
}

function ModelPart({ model: { name, baseModel, checkpoints } }: { model: ServiceModel }) {
  return (
    <details class="model-part">
      <summary>
        {name}{' '}
        <span class="muted">
          of {baseModel}, {counted(checkpoints.length, 'checkpoint')}
        </span>
      </summary>
      <div class="table-scroll">
        <table>
          <thead>
            <tr>
              <th scope="col">Checkpoint</th>
              <th scope="col">Last metrics of its job</th>
              <th scope="col">Chat</th>
            </tr>
          </thead>
          <tbody>
            {checkpoints.map(({ step, name: pinned, metrics }) => (
              <tr key={step}>
                <th scope="row">step {step}</th>
                <td class="muted">
                  {Object.entries(metrics)
                    .slice(0, 5)
                    .map(([metric, value]) => `${inWords(metric)} ${formatNumber(value)}`)
                    .join(' · ') || '–'}
                </td>
                <td>
                  <div class="buttons">
                    <button type="button" class="button" onClick={() => setQuery({ left: pinned })}>
                      Left
                    </button>
                    <button type="button" class="button" onClick={() => setQuery({ right: pinned })}>
                      Right
                    </button>
                  </div>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  );
}
