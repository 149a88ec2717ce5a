import type { StepDetail } from '../../api.ts';
import { counted } from '../parts/format.ts';
import { Tag } from '../parts/tag.tsx';
import { addressOf } from '../router.ts';

/** Failed and cancelled rollouts by reason, with the place that threw. */
export function Failures({ step: { run, which, failures } }: { step: StepDetail }) {
  return (
    <section class="panel failures" aria-label="Failures">
      <h2 class="panel-head">Failures</h2>
      <ul>
        {failures.map(({ code, message, at, stack, count, group, rollout }) => (
          <li key={`${code} ${at}`}>
            <div class="failure-side">
              <Tag is="bad">{code}</Tag>
              <a href={addressOf(['runs', run, 'steps', which, 'groups', group, 'rollouts', rollout])}>
                {counted(count, 'rollout')}
              </a>
            </div>
            <div>
              <p class="model-text">{message}</p>
              {at && <p class="mono muted model-text">{at}</p>}
              {stack && (
                <details>
                  <summary class="muted">Stack</summary>
                  <pre class="model-text">{stack}</pre>
                </details>
              )}
            </div>
          </li>
        ))}
      </ul>
    </section>
  );
}
