import type { Constraint } from '../constraint/constraint.ts';
import type { ByteGraph } from './byte-graph.ts';
import { nodeCount } from './packed-nodes.ts';

/**
 * A constraint as far as it is compiled without a model's tokens. Its graphs lie in memory that threads share: one
 * thread compiles a constraint, and the others begin with what has cost the time.
 */
export interface ConstraintPlan {
  /** Plans of equal constraints have the same. */
  name: string;
  reasoning: Constraint['reasoning'];
  /** The branches of the constraint, each with the graph of its grammar; null where that is any text. */
  branches: { open: number | null; repeat: boolean; graph: ByteGraph | null }[];
}

/** Nodes of all its graphs. */
export const planSize = ({ branches }: ConstraintPlan): number =>
  branches.reduce((sum, { graph }) => sum + (graph ? nodeCount(graph.nodes) : 0), 0);
