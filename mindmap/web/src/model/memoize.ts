// Caches of computed values.

/** Returns a function that caches its result for each object. */
export function memoizeByObject<Key extends object, Value>(compute: (key: Key) => Value): (key: Key) => Value {
  const cache = new WeakMap<Key, Value>();
  return (key) => {
    let value = cache.get(key);
    if (value === undefined) cache.set(key, (value = compute(key)));
    return value;
  };
}

/** Returns a function that caches its last result, because most changes of the state leave its arguments the same. */
export function memoizeLast<Arguments extends unknown[], Value>(compute: (...values: Arguments) => Value): (...values: Arguments) => Value {
  let cached: { values: Arguments; value: Value } | null = null;
  return (...values) => {
    if (!cached || cached.values.some((value, index) => !Object.is(value, values[index]))) cached = { values, value: compute(...values) };
    return cached.value;
  };
}
