import type { ServiceDetail, ServiceJob, ServiceModel } from '../../api.ts';
import { useApi } from '../api-client.ts';
import { counted, formatAge, formatNumber, formatSeconds, inWords } from '../parts/format.ts';
import { Data, Nothing } from '../parts/states.tsx';
import { TableHead } from '../parts/table-head.tsx';
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

function ModelPart({ model: { name, baseModel, checkpoints, jobs } }: { model: ServiceModel }) {
  return (
    <details class="model-part">
      <summary>
        {name}{' '}
        <span class="muted">
          of {baseModel}, {counted(checkpoints.length, 'checkpoint')}
          {jobs.length > 0 && `, ${stateOfJobs(jobs)}`}
        </span>
      </summary>
      <div class="table-scroll">
        <table>
          <TableHead columns={['Checkpoint', 'Last metrics of its job', 'Chat']} />
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
      {jobs.length > 0 && <Jobs jobs={jobs} />}
    </details>
  );
}

function stateOfJobs(jobs: readonly ServiceJob[]): string {
  const open = jobs.filter(({ status }) => status === 'queued' || status === 'running');
  const [newest] = jobs;
  return open.length > 0
    ? `${counted(open.length, 'job')} open`
    : `newest job ${newest?.status ?? 'unknown'}`;
}

const looks: Readonly<Record<string, 'good' | 'bad' | 'plain'>> = { succeeded: 'good', failed: 'bad' };

function Jobs({ jobs }: { jobs: readonly ServiceJob[] }) {
  return (
    <div class="table-scroll">
      <table>
        <TableHead columns={['Job', 'Status', 'Checkpoint', 'Took', 'Created']} />
        <tbody>
          {jobs.map(({ id, kind, status, step, created, seconds, error }) => (
            <tr key={id}>
              <th scope="row">
                <span class="mono">{id.slice(0, 8)}</span> <span class="muted">{kind}</span>
              </th>
              <td>
                <Tag is={looks[status] ?? 'plain'}>{inWords(status)}</Tag>{' '}
                {error && <span class="muted">{error}</span>}
              </td>
              <td>{step === null ? '–' : `step ${step}`}</td>
              <td>{formatSeconds(seconds)}</td>
              <td class="muted">{created === null ? '–' : formatAge(created)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
