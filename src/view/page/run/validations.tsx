import type { RunDetail } from '../../api.ts';
import { isExport } from '../export-answers.ts';
import { formatNumber, formatShare } from '../parts/format.ts';
import { numbers, TableHead } from '../parts/table-head.tsx';
import { stepTitle } from '../parts/titles.ts';
import { addressOf } from '../router.ts';

/** The validations of a run with their 95 % intervals. */
export function Validations({ run: { id, environment, evaluations, names } }: { run: RunDetail }) {
  const kept = evaluations.filter(({ name }) => names.includes(name));
  const [first, last] = [kept[0], kept.at(-1)];
  const hasSuccess = evaluations.some(({ success }) => success !== null);
  return (
    <section class="panel" aria-label="Validations">
      <div class="panel-head">
        <h2>Validation</h2>
        {evaluations.length > 1 && !isExport && (
          <a
            class="button"
            href={addressOf(['compare'], {
              environment,
              of: evaluations.map(({ name }) => `${id}:${name}`).join(','),
            })}
          >
            All in one table
          </a>
        )}
        {first && last && first !== last && (
          <a class="button" href={addressOf(['flips', id, first.name, id, last.name])}>
            What changed from {stepTitle(first.name).toLowerCase()} to {stepTitle(last.name).toLowerCase()}
          </a>
        )}
      </div>
      <div class="table-scroll">
        <table>
          <TableHead
            columns={[
              'Validation',
              numbers('Reward'),
              hasSuccess && numbers('Success'),
              numbers('Scenarios'),
              'Policy',
            ]}
          />
          <tbody>
            {evaluations.map((one) => (
              <tr key={one.name}>
                <th scope="row">
                  {names.includes(one.name) ? (
                    <a href={addressOf(['runs', id, 'steps', one.name])}>{stepTitle(one.name)}</a>
                  ) : (
                    stepTitle(one.name)
                  )}
                </th>
                <td class="number">
                  <b>{formatNumber(one.reward)}</b>
                  <Range of={one.rewardInterval} format={formatNumber} />
                </td>
                {hasSuccess && (
                  <td class="number">
                    <b>{formatShare(one.success)}</b>
                    <Range of={one.successInterval} format={formatShare} />
                  </td>
                )}
                <td class="number">{one.scenarios}</td>
                <td class="mono">{one.policy}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function Range({ of, format }: { of: readonly [number, number] | null; format: (value: number) => string }) {
  if (!of) return null;
  return (
    <span class="muted">
      {' '}
      {format(of[0])} to {format(of[1])}
    </span>
  );
}
