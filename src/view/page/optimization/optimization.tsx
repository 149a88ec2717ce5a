import type { CandidateRow, OptimizationDetail, RunDetail } from '../../api.ts';
import { branchesOf } from '../../branches.ts';
import { counted, formatNumber, formatShare, inWords } from '../parts/format.ts';
import { numbers, TableHead } from '../parts/table-head.tsx';
import { Tag } from '../parts/tag.tsx';
import { addressOf, setQuery } from '../router.ts';
import { Scenarios } from './scenarios.tsx';
import { Texts } from './texts.tsx';
import './optimization.css';

interface OptimizationProps {
  run: RunDetail;
  optimization: OptimizationDetail;
  /** `candidate` is the one whose texts are shown, `beside` the one that they stand beside. */
  query: Readonly<Record<string, string | undefined>>;
}

/** A run of `optimize`: the tree of candidates, which scenarios each one wins, and their texts side by side. */
export function Optimization({ run, optimization, query }: OptimizationProps) {
  const { candidates, best } = optimization;
  const find = (number: number | null) => candidates.find((one) => one.number === number);
  const chosen = find(Number(query.candidate ?? best)) ?? candidates[best];
  const beside = find(query.beside === undefined ? (chosen?.parent ?? 0) : Number(query.beside));
  if (!chosen || !beside) return null;
  return (
    <>
      <Tree run={run} optimization={optimization} chosen={chosen} />
      <Texts candidates={candidates} chosen={chosen} beside={beside} />
      <Scenarios optimization={optimization} runId={run.id} />
      {optimization.iterations.length > 0 && <Iterations optimization={optimization} />}
    </>
  );
}

function Tree({
  run,
  optimization: { candidates, best, scenarios },
  chosen,
}: Omit<OptimizationProps, 'query'> & { chosen: CandidateRow }) {
  const hasSuccess = candidates.some(({ success }) => success !== null);
  const start = candidates[0]?.reward ?? 0;
  return (
    <section class="panel" aria-label="Candidates">
      <div class="panel-head">
        <h2>{counted(candidates.length, 'candidate')}</h2>
        <span class="muted">
          on {counted(scenarios.length, 'validation scenario')}; choose one to read its texts
        </span>
      </div>
      <div class="table-scroll">
        <table class="candidates">
          <TableHead
            columns={[
              'Candidate',
              'Changed',
              numbers('Reward'),
              hasSuccess && numbers('Success'),
              numbers('Wins'),
              'Rollouts',
            ]}
          />
          <tbody>
            {branchesOf(candidates).map(({ candidate, depth }) => (
              <tr key={candidate.number} class={candidate === chosen ? 'cursor' : ''}>
                <th scope="row">
                  <span class="branch" style={{ '--depth': depth }} />
                  <button
                    type="button"
                    class="button"
                    aria-pressed={candidate === chosen}
                    onClick={() => setQuery({ candidate: candidate.number, beside: null })}
                  >
                    {candidate.number}
                  </button>{' '}
                  {candidate.number === best && <Tag is="good">Best</Tag>}
                </th>
                <td>{candidate.text ?? <span class="muted">the environment's own texts</span>}</td>
                <td class="number">
                  <b>{formatNumber(candidate.reward)}</b>
                  {candidate.number > 0 && (
                    <span class="muted">
                      {' '}
                      {formatNumber(candidate.reward - start).replace(/^(?=[\d.])/, '+')}
                    </span>
                  )}
                </td>
                {hasSuccess && <td class="number">{formatShare(candidate.success)}</td>}
                <td class="number">{candidate.wins.length}</td>
                <td>
                  <a href={addressOf(['runs', run.id, 'steps', candidate.which])}>Open</a>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function Iterations({ optimization: { iterations } }: { optimization: OptimizationDetail }) {
  return (
    <section class="panel" aria-label="Iterations">
      <div class="panel-head">
        <h2>{counted(iterations.length, 'iteration')}</h2>
      </div>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls sideways must be reached by the keyboard. */}
      <div class="table-scroll" tabIndex={0}>
        <table>
          <TableHead
            columns={[numbers('Iteration'), numbers('Of candidate'), 'Text', numbers('Minibatch'), 'Outcome']}
          />
          <tbody>
            {iterations.map(({ iteration, parent, text, before, after, outcome, because, candidate }) => (
              <tr key={iteration}>
                <th scope="row" class="number">
                  {iteration}
                </th>
                <td class="number">{parent}</td>
                <td>{text ?? '–'}</td>
                <td class="number">
                  {formatNumber(before)}
                  {after !== null && ` → ${formatNumber(after)}`}
                </td>
                <td>
                  {candidate === null ? inWords(outcome) : <b>candidate {candidate}</b>}
                  {because && <span class="muted"> {because}</span>}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
