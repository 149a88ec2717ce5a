import { isObject } from '../../util/json.ts';

/** The nodes of a template, as the library's parser makes them. */
export type Node =
  | { type: 'Program'; body: Node[] }
  | { type: 'If'; test: Node; body: Node[]; alternate: Node[] }
  | { type: 'For'; loopvar: Node; iterable: Node; body: Node[]; defaultBlock: Node[] }
  | { type: 'Break' | 'Continue' | 'Comment' }
  | { type: 'Set'; assignee: Node; value: Node | null; body: Node[] }
  | { type: 'Macro'; name: Named; args: Node[]; body: Node[] }
  | { type: 'CallStatement'; call: Call; callerArgs: Node[] | null; body: Node[] }
  | { type: 'FilterStatement'; filter: Named | Call; body: Node[] }
  | { type: 'MemberExpression'; object: Node; property: Node; computed: boolean }
  | { type: 'SliceExpression'; start?: Node; stop?: Node; step?: Node }
  | Call
  | Named
  | { type: 'IntegerLiteral' | 'FloatLiteral'; value: number }
  | { type: 'StringLiteral'; value: string }
  | { type: 'ArrayLiteral' | 'TupleLiteral'; value: Node[] }
  | { type: 'ObjectLiteral'; value: Map<Node, Node> }
  | { type: 'BinaryExpression'; operator: Operator; left: Node; right: Node }
  | { type: 'UnaryExpression'; operator: { value: string }; argument: Node }
  | { type: 'FilterExpression'; operand: Node; filter: Named | Call }
  | { type: 'TestExpression'; operand: Node; negate: boolean; test: Named }
  | { type: 'SelectExpression'; lhs: Node; test: Node }
  | { type: 'Ternary'; condition: Node; trueExpr: Node; falseExpr: Node }
  | { type: 'KeywordArgumentExpression'; key: Named; value: Node }
  | { type: 'SpreadExpression' | 'KeywordSpreadExpression'; argument: Node };

/** `depth`: in how many brackets a comparison is. */
type Operator = { value: string; depth?: number };
export type Named = { type: 'Identifier'; value: string };
export type Call = { type: 'CallExpression'; callee: Node; args: Node[] };

/** The library does not export the types of its nodes. */
export const isNode = (value: unknown): value is Node => isObject(value) && typeof value.type === 'string';
