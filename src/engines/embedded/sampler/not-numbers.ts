import { EngineError } from '../../engine-error.ts';

/** Nothing can be sampled from such logits, and no log-probability of them could be reported. */
export function notNumbers(): EngineError {
  return new EngineError(
    'bad_checkpoint',
    'the weights give logits that are no numbers; take an earlier checkpoint, and train with a lower learning rate',
  );
}
