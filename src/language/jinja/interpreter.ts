import { integerOf } from './arguments.ts';
import { pass, spend, step } from './budget.ts';
import { filterNamed } from './filters.ts';
import { methodOf } from './methods.ts';
import { type Call, isNode, type Named, type Node } from './nodes.ts';
import { binary } from './operators.ts';
import { testNamed } from './tests.ts';
import {
  type Callable,
  Group,
  isNumeric,
  isTrue,
  itemsOf,
  keyOf,
  Namespace,
  TemplateError,
  Tuple,
  toText,
  typeName,
  type Value,
} from './value.ts';

/** The variables of a block, and of those around it. */
class Scope {
  readonly #own = new Map<string, Value>();
  readonly #outer: Scope | ReadonlyMap<string, Value>;

  constructor(outer: Scope | ReadonlyMap<string, Value>) {
    this.#outer = outer;
  }

  get(name: string): Value {
    return this.#own.has(name) ? this.#own.get(name) : this.#outer.get(name);
  }

  set(name: string, value: Value): void {
    this.#own.set(name, value);
  }
}

/** What leaves a loop's body early. */
type Leaving = 'break' | 'continue' | null;

interface Output {
  text: string;
}

/** Runs a parsed template as Jinja2 does. @throws TemplateError */
export function run(program: readonly Node[], variables: ReadonlyMap<string, Value>): string {
  const output = { text: '' };
  write(program, new Scope(variables), output);
  return output.text;
}

function write(nodes: readonly Node[], scope: Scope, output: Output): Leaving {
  for (const node of nodes) {
    const leaving = writeNode(node, scope, output);
    if (leaving) return leaving;
  }
  return null;
}

function textOfBlock(nodes: readonly Node[], scope: Scope): string {
  const output = { text: '' };
  write(nodes, scope, output);
  return output.text;
}

function append(output: Output, text: string): void {
  spend(text.length);
  output.text += text;
}

function writeNode(node: Node, scope: Scope, output: Output): Leaving {
  step();
  switch (node.type) {
    case 'Comment':
      return null;
    case 'Program':
      return write(node.body, scope, output);
    case 'If':
      return write(isTrue(evaluate(node.test, scope)) ? node.body : node.alternate, scope, output);
    case 'For':
      writeLoop(node, scope, output);
      return null;
    case 'Break':
      return 'break';
    case 'Continue':
      return 'continue';
    case 'Set':
      assign(
        node.assignee,
        node.value ? evaluate(node.value, scope) : textOfBlock(node.body, new Scope(scope)),
        scope,
      );
      return null;
    case 'Macro':
      scope.set(node.name.value, macro(node.name.value, node.args, node.body, scope));
      return null;
    case 'CallStatement': {
      const { call } = node;
      const caller = macro('caller', node.callerArgs ?? [], node.body, scope);
      const [args, keywords] = argumentsOf(call.args, scope);
      append(
        output,
        toText(callableOf(call.callee, scope)(args, new Map([...keywords, ['caller', caller]]))),
      );
      return null;
    }
    case 'FilterStatement':
      append(output, toText(filtered(textOfBlock(node.body, new Scope(scope)), node.filter, scope)));
      return null;
    default:
      append(output, toText(evaluate(node, scope)));
      return null;
  }
}

/** What an iteration takes besides the nodes of its body. */
const stepsOfIteration = 32;

function writeLoop(node: Extract<Node, { type: 'For' }>, outer: Scope, output: Output): void {
  const { iterable, loopvar, body, defaultBlock } = node;
  const isSelected = iterable.type === 'SelectExpression';
  const all = itemsOf(pass(evaluate(isSelected ? iterable.lhs : iterable, outer)));
  const items = all.filter((item) => {
    if (!isSelected) return true;
    step(stepsOfIteration);
    const scope = new Scope(outer);
    assign(loopvar, item, scope);
    return isTrue(evaluate(iterable.test, scope));
  });
  for (const [index, item] of items.entries()) {
    step(stepsOfIteration);
    // Variables of one iteration are unknown in the next.
    const scope = new Scope(outer);
    scope.set('loop', loopFields(items, index));
    assign(loopvar, item, scope);
    if (write(body, scope, output) === 'break') break;
  }
  if (items.length === 0) write(defaultBlock, new Scope(outer), output);
}

function loopFields(items: readonly Value[], index: number): Namespace {
  const { length } = items;
  return new Namespace(
    new Map<string, Value>([
      ['index', BigInt(index + 1)],
      ['index0', BigInt(index)],
      ['revindex', BigInt(length - index)],
      ['revindex0', BigInt(length - index - 1)],
      ['first', index === 0],
      ['last', index === length - 1],
      ['length', BigInt(length)],
      // The parser refuses recursive loops, the only ones that are deeper.
      ['depth', 1n],
      ['depth0', 0n],
      ['previtem', items[index - 1]],
      ['nextitem', items[index + 1]],
      ['cycle', (args: readonly Value[]) => args[index % args.length]],
    ]),
  );
}

function assign(target: Node, value: Value, scope: Scope): void {
  if (target.type === 'Identifier') scope.set(target.value, value);
  else if (target.type === 'TupleLiteral') {
    const items = itemsOf(value);
    if (items.length !== target.value.length)
      throw new TemplateError(`${items.length} values cannot be unpacked into ${target.value.length}`);
    for (const [index, inner] of target.value.entries()) assign(inner, items[index], scope);
  } else if (target.type === 'MemberExpression' && target.property.type === 'Identifier') {
    const owner = evaluate(target.object, scope);
    if (!(owner instanceof Namespace))
      throw new TemplateError(`a field of a ${typeName(owner)} cannot be set, only of a namespace`);
    owner.fields.set(target.property.value, value);
  } else throw new TemplateError(`a ${target.type} cannot be set`);
}

/** A macro sees the variables around its definition. */
function macro(name: string, parameters: readonly Node[], body: readonly Node[], outer: Scope): Callable {
  return (args, keywords) => {
    const scope = new Scope(outer);
    const left = new Map(keywords);
    for (const [index, parameter] of parameters.entries()) {
      const isOptional = parameter.type === 'KeywordArgumentExpression';
      const key = isOptional ? parameter.key.value : parameter.type === 'Identifier' ? parameter.value : '';
      const given = index < args.length ? args[index] : left.get(key);
      const isGiven = index < args.length || left.delete(key);
      scope.set(key, isGiven || !isOptional ? given : evaluate(parameter.value, scope));
    }
    if (left.has('caller')) scope.set('caller', left.get('caller'));
    left.delete('caller');
    scope.set('varargs', Tuple.from(args.slice(parameters.length)));
    scope.set('kwargs', left);
    const accepts = (variable: string) => uses(body, variable);
    const [unknown] = left.keys();
    if (unknown !== undefined && !accepts('kwargs'))
      throw new TemplateError(`the macro ${name} has no argument ${unknown}`);
    if (args.length > parameters.length && !accepts('varargs'))
      throw new TemplateError(`the macro ${name} takes at most ${parameters.length} arguments`);
    return textOfBlock(body, scope);
  };
}

/** Whether a variable occurs in a part of a template. */
function uses(part: unknown, variable: string): boolean {
  if (Array.isArray(part)) return part.some((inner) => uses(inner, variable));
  if (part instanceof Map) return [...part].some((inner) => uses(inner, variable));
  if (!isNode(part)) return false;
  if (part.type === 'Identifier') return part.value === variable;
  return Object.values(part).some((inner) => uses(inner, variable));
}

function evaluate(node: Node, scope: Scope): Value {
  step();
  switch (node.type) {
    case 'Identifier':
      return scope.get(node.value);
    case 'StringLiteral':
      return node.value;
    case 'IntegerLiteral':
      return BigInt(node.value);
    case 'FloatLiteral':
      return node.value;
    case 'ArrayLiteral':
      return node.value.map((item) => evaluate(item, scope));
    case 'TupleLiteral':
      return Tuple.from(node.value.map((item) => evaluate(item, scope)));
    case 'ObjectLiteral':
      return new Map(
        [...node.value].map(([key, item]) => [keyOf(evaluate(key, scope)), evaluate(item, scope)]),
      );
    case 'MemberExpression':
      return member(node, scope);
    case 'CallExpression': {
      const callee = callableOf(node.callee, scope);
      return pass(callee(...argumentsOf(node.args, scope)));
    }
    case 'FilterExpression':
      return filtered(evaluate(node.operand, scope), node.filter, scope);
    case 'TestExpression':
      return testNamed(node.test.value, [])(evaluate(node.operand, scope)) !== node.negate;
    case 'BinaryExpression': {
      const { value: operator } = node.operator;
      if (node.operator.depth !== undefined) return compared(node, scope).result;
      const left = evaluate(node.left, scope);
      if (operator === 'and') return isTrue(left) ? evaluate(node.right, scope) : left;
      if (operator === 'or') return isTrue(left) ? left : evaluate(node.right, scope);
      return binary(operator, pass(left), pass(evaluate(node.right, scope)));
    }
    case 'UnaryExpression':
      return unary(node.operator.value, evaluate(node.argument, scope));
    case 'SelectExpression':
      return isTrue(evaluate(node.test, scope)) ? evaluate(node.lhs, scope) : undefined;
    case 'Ternary':
      return evaluate(isTrue(evaluate(node.condition, scope)) ? node.trueExpr : node.falseExpr, scope);
    default:
      throw new TemplateError(`a ${node.type} has no value`);
  }
}

type Binary = Extract<Node, { type: 'BinaryExpression' }>;

/** Python's chain: `a < b < c` is `a < b and b < c`, with `b` evaluated once. `last`: what the next link compares. */
function compared({ operator, left, right }: Binary, scope: Scope): { result: Value; last: Value } {
  const isLink = left.type === 'BinaryExpression' && left.operator.depth === operator.depth;
  const { result, last } = isLink ? compared(left, scope) : { result: true, last: evaluate(left, scope) };
  if (!isTrue(result)) return { result, last };
  const value = evaluate(right, scope);
  return { result: binary(operator.value, pass(last), pass(value)), last: value };
}

function unary(operator: string, value: Value): Value {
  if (operator === 'not') return !isTrue(value);
  if (!isNumeric(value)) throw new TemplateError(`${operator} is not possible for ${typeName(value)}`);
  const number = typeof value === 'boolean' ? BigInt(value) : value;
  return operator === '-' ? -number : number;
}

function argumentsOf(nodes: readonly Node[], scope: Scope): [Value[], Map<string, Value>] {
  const args: Value[] = [];
  const keywords = new Map<string, Value>();
  for (const node of nodes)
    if (node.type === 'SpreadExpression') {
      for (const item of pass(itemsOf(evaluate(node.argument, scope)))) args.push(item);
    } else if (node.type === 'KeywordArgumentExpression')
      keywords.set(node.key.value, evaluate(node.value, scope));
    else if (node.type === 'KeywordSpreadExpression') {
      const more = evaluate(node.argument, scope);
      if (!(more instanceof Map)) throw new TemplateError(`** takes a dict, not ${typeName(more)}`);
      for (const [name, value] of more) keywords.set(name, value);
    } else args.push(evaluate(node, scope));
  return [args, keywords];
}

function callableOf(node: Node, scope: Scope): Callable {
  const value = evaluate(node, scope);
  if (typeof value === 'function') return value;
  const name =
    node.type === 'Identifier' ? node.value : node.type === 'MemberExpression' ? nameOf(node.property) : '';
  throw new TemplateError(
    value === undefined
      ? `there is no function or method ${name}`
      : `${name} is a ${typeName(value)}, not a function`,
  );
}

const nameOf = (node: Node) =>
  node.type === 'Identifier' || node.type === 'StringLiteral' ? node.value : node.type;

function filtered(value: Value, filter: Named | Call, scope: Scope): Value {
  pass(value);
  if (filter.type === 'Identifier') return pass(filterNamed(filter.value)(value, [], new Map()));
  return pass(filterNamed(nameOf(filter.callee))(value, ...argumentsOf(filter.args, scope)));
}

/** `a.b` looks for a method first, `a['b']` for an item, as Jinja2's `getattr` and `getitem`. */
function member(node: Extract<Node, { type: 'MemberExpression' }>, scope: Scope): Value {
  const owner = evaluate(node.object, scope);
  const { property } = node;
  // A method goes through its owner.
  if (typeof owner === 'string') pass(owner);
  if (property.type === 'SliceExpression') return slice(owner, property, scope);
  const key = !node.computed && property.type === 'Identifier' ? property.value : evaluate(property, scope);
  if (owner === undefined)
    throw new TemplateError(`${nameOf(node.object)} is undefined, so it has no ${toText(key)}`);
  if (typeof key === 'string') {
    if (owner instanceof Namespace) return owner.fields.get(key);
    if (owner instanceof Group && key === 'grouper') return owner[0];
    if (owner instanceof Group && key === 'list') return owner[1];
    if (node.computed && owner instanceof Map && owner.has(key)) return owner.get(key);
    return methodOf(owner, key) ?? (owner instanceof Map ? owner.get(key) : undefined);
  }
  if (!isNumeric(key) || (typeof owner !== 'string' && !Array.isArray(owner))) return undefined;
  return itemsOf(owner).at(integerOf(key));
}

function slice(owner: Value, range: Extract<Node, { type: 'SliceExpression' }>, scope: Scope): Value {
  const items = itemsOf(pass(owner));
  const at = (node: Node | undefined) => {
    const value = node && evaluate(node, scope);
    return value === undefined || value === null ? null : integerOf(value);
  };
  const step = at(range.step) ?? 1;
  if (step === 0) throw new TemplateError('the step of a slice cannot be zero');
  const { length } = items;
  const [least, most] = step > 0 ? [0, length] : [-1, length - 1];
  const clamp = (index: number) => Math.min(Math.max(index < 0 ? index + length : index, least), most);
  const [first, last] = [at(range.start), at(range.stop)];
  const start = first === null ? (step > 0 ? least : most) : clamp(first);
  const stop = last === null ? (step > 0 ? most : least) : clamp(last);
  const result: Value[] = [];
  for (let index = start; step > 0 ? index < stop : index > stop; index += step) result.push(items[index]);
  if (typeof owner === 'string') return result.map(toText).join('');
  return owner instanceof Tuple ? Tuple.from(result) : result;
}
