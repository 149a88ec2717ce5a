/**
 * Some systems give the browser a language that it does not know itself, such as `en-US@posix`; formats of numbers by it
 * would throw. Loaded first, because libraries read it when they are loaded.
 */
try {
  new Intl.NumberFormat(navigator.language);
} catch {
  const known = { language: 'en', languages: ['en'] };
  for (const [name, value] of Object.entries(known))
    Object.defineProperty(navigator, name, { get: () => value });
}
