/** A map, a weak map or a cache. */
interface Store<Key, Value> {
  get(key: Key): Value | undefined;
  set(key: Key, value: NoInfer<Value>): unknown;
}

/** The value of a key. If there is none, `make` makes it and it is stored: `getOrInsertComputed` of newer JavaScript. */
export function getOrInsert<Key, Value>(store: Store<Key, Value>, key: Key, make: () => Value): Value {
  const known = store.get(key);
  if (known !== undefined) return known;
  const made = make();
  store.set(key, made);
  return made;
}
