import type { RunDetail } from '../../api.ts';
import { inWords } from '../parts/format.ts';
import { Tag } from '../parts/tag.tsx';
import { addressOf } from '../router.ts';

/** What a person should look at, newest last, with what usually helps. */
export function Alarms({ run: { id, alarms } }: { run: RunDetail }) {
  return (
    <section class="panel alarms" aria-label="Alarms">
      <h2 class="panel-head">{alarms.length === 1 ? '1 alarm' : `${alarms.length} alarms`}</h2>
      <ul>
        {alarms.map(({ kind, step, message, lookAt }) => (
          <li key={`${kind} ${step}`}>
            <div>
              <Tag is="warn">{inWords(kind)}</Tag>
              <br />
              <a href={addressOf(['runs', id, 'steps', step])}>Step {step}</a>
            </div>
            <div>
              <p>{message}</p>
              <p class="muted">{lookAt}</p>
            </div>
          </li>
        ))}
      </ul>
    </section>
  );
}
