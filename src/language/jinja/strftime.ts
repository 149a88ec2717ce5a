import { TemplateError } from './value.ts';

const days = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'];
const months = [
  ...['January', 'February', 'March', 'April', 'May', 'June', 'July'],
  ...['August', 'September', 'October', 'November', 'December'],
];

/** Local time in the format of Python's `strftime`. @throws TemplateError on other directives than these */
export function strftime(date: Date, format: string): string {
  const two = (value: number) => String(value).padStart(2, '0');
  const day = days[date.getDay()] ?? '';
  const month = months[date.getMonth()] ?? '';
  const directives: Record<string, string> = {
    Y: String(date.getFullYear()),
    y: two(date.getFullYear() % 100),
    m: two(date.getMonth() + 1),
    d: two(date.getDate()),
    e: String(date.getDate()).padStart(2, ' '),
    B: month,
    b: month.slice(0, 3),
    A: day,
    a: day.slice(0, 3),
    H: two(date.getHours()),
    I: two(date.getHours() % 12 || 12),
    p: date.getHours() < 12 ? 'AM' : 'PM',
    M: two(date.getMinutes()),
    S: two(date.getSeconds()),
    j: String(dayOfYear(date)).padStart(3, '0'),
    // Python's time of `datetime.now()` knows no zone.
    Z: '',
    z: '',
    '%': '%',
  };
  return format.replace(/%(-?)(.?)/gs, (whole, bare, letter) => {
    const written = Object.hasOwn(directives, letter) ? directives[letter] : undefined;
    if (written === undefined)
      throw new TemplateError(`strftime_now has no ${whole}; it has %${Object.keys(directives).join(', %')}`);
    return bare ? written.replace(/^[0 ]+(?=.)/, '') : written;
  });
}

/** The time of day does not count, nor the hour that summer time takes. */
function dayOfYear(date: Date): number {
  const year = date.getFullYear();
  return (Date.UTC(year, date.getMonth(), date.getDate()) - Date.UTC(year, 0, 0)) / 86_400_000;
}
