import { spend } from './budget.ts';
import { isIn } from './tests.ts';
import { percentFormat } from './text-format.ts';
import { compare, equal, isNumeric, TemplateError, Tuple, toText, typeName, type Value } from './value.ts';

/** The operators of Python with two operands, except `and` and `or`. */
export function binary(operator: string, left: Value, right: Value): Value {
  switch (operator) {
    case '==':
      return equal(left, right);
    case '!=':
      return !equal(left, right);
    case '<':
      return compare(left, right) < 0;
    case '<=':
      return compare(left, right) <= 0;
    case '>':
      return compare(left, right) > 0;
    case '>=':
      return compare(left, right) >= 0;
    case 'in':
      return isIn(left, right);
    case 'not in':
      return !isIn(left, right);
    case '~':
      return joined(toText(left), toText(right));
  }
  if (isNumeric(left) && isNumeric(right)) return arithmetic(operator, left, right);
  if (operator === '+' && typeof left === 'string' && typeof right === 'string') return joined(left, right);
  if (operator === '+' && Array.isArray(left) && Array.isArray(right)) {
    spend(left.length + right.length);
    const items = [...left, ...right];
    return left instanceof Tuple ? Tuple.from(items) : items;
  }
  if (operator === '%' && typeof left === 'string') return percentFormat(left, right);
  if (operator === '*' && isNumeric(right) && typeof right !== 'number') {
    const count = Math.max(0, Number(right));
    if (typeof left === 'string' || Array.isArray(left)) spend(left.length * count);
    if (typeof left === 'string') return left.repeat(count);
    if (Array.isArray(left)) return Array.from({ length: count }, () => left).flat();
  }
  if (operator === '*' && isNumeric(left) && !isNumeric(right)) return binary('*', right, left);
  throw new TemplateError(`${operator} is not possible between ${typeName(left)} and ${typeName(right)}`);
}

function joined(left: string, right: string): string {
  spend(left.length + right.length);
  return left + right;
}

type Numeric = boolean | bigint | number;

function arithmetic(operator: string, left: Numeric, right: Numeric): Value {
  const isFloat = typeof left === 'number' || typeof right === 'number';
  if (['/', '//', '%'].includes(operator) && Number(right) === 0) throw new TemplateError('division by zero');
  if (isFloat || operator === '/' || (operator === '**' && Number(right) < 0))
    return ofFloats(operator, Number(left), Number(right));
  return ofIntegers(operator, BigInt(left), BigInt(right));
}

function ofFloats(operator: string, left: number, right: number): number {
  switch (operator) {
    case '+':
      return left + right;
    case '-':
      return left - right;
    case '*':
      return left * right;
    case '/':
      return left / right;
    case '//':
      return Math.floor(left / right);
    case '%': {
      const rest = left % right;
      return rest !== 0 && rest < 0 !== right < 0 ? rest + right : rest;
    }
    case '**':
      return left ** right;
  }
  throw new TemplateError(`there is no operator ${operator}`);
}

/** Longest power and product in bits: a template must not fill the memory. */
const maxBits = 100_000;
const largestProduct = 2n ** BigInt(maxBits);

function ofIntegers(operator: string, left: bigint, right: bigint): bigint {
  switch (operator) {
    case '+':
      return left + right;
    case '-':
      return left - right;
    case '*': {
      const product = left * right;
      if (product > largestProduct || -product > largestProduct)
        throw new TemplateError('the product is too large');
      return product;
    }
    case '//': {
      const whole = left / right;
      return left % right !== 0n && left < 0n !== right < 0n ? whole - 1n : whole;
    }
    case '%': {
      const rest = left % right;
      return rest !== 0n && rest < 0n !== right < 0n ? rest + right : rest;
    }
    case '**':
      if (BigInt(left.toString(2).length) * right > maxBits)
        throw new TemplateError('the power is too large');
      return left ** right;
  }
  throw new TemplateError(`there is no operator ${operator}`);
}
