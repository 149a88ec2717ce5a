import type { Alarm } from '../../../progress/report.ts';
import type { RunDetail } from '../../api.ts';
import { counted, inWords } from '../parts/format.ts';
import { Tag } from '../parts/tag.tsx';
import { addressOf } from '../router.ts';

/** Steps that are listed of a kind. */
const maxSteps = 12;

/** What a person should look at, each kind once with its steps and what its last alarm says. */
export function Alarms({ run: { id, alarms } }: { run: RunDetail }) {
  const kinds = Map.groupBy(alarms, ({ kind, cause }) => `${kind} ${cause}`);
  const faults = alarms.filter((alarm) => !isSolved(alarm)).length;
  return (
    <section class="panel alarms" aria-label="Alarms">
      <h2 class="panel-head">{faults > 0 ? counted(faults, 'alarm') : 'Solved'}</h2>
      <ul>
        {[...kinds].map(([kind, found]) => (
          <AlarmsOfKind key={kind} run={id} alarms={found} />
        ))}
      </ul>
    </section>
  );
}

function AlarmsOfKind({ run, alarms }: { run: string; alarms: readonly Alarm[] }) {
  const last = alarms.at(-1);
  if (!last) return null;
  const { kind, message, lookAt } = last;
  return (
    <li>
      <div>
        {isSolved(last) ? (
          <Tag is="good">solved: little is left to learn</Tag>
        ) : (
          <Tag is="warn">{inWords(kind)}</Tag>
        )}
        <p class="alarm-steps">
          {alarms.length === 1 ? 'Step' : 'Steps'}{' '}
          {alarms.slice(-maxSteps).map(({ step }, at) => (
            <>
              {at > 0 && ', '}
              <a key={step} href={addressOf(['runs', run, 'steps', step])}>
                {step}
              </a>
            </>
          ))}
          {alarms.length > maxSteps && <span class="muted"> and {alarms.length - maxSteps} before</span>}
        </p>
      </div>
      <div>
        <p>{message}</p>
        <p class="muted">{lookAt}</p>
      </div>
    </li>
  );
}

/** Groups have no signal because the policy solves their scenarios: that is the aim, not a fault. */
const isSolved = ({ cause }: Alarm): boolean => cause === 'solved';
