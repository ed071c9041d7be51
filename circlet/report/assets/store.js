// What the page shows now; views draw themselves anew when it changes.

/** A store of named values: `set` tells everybody who listens which of them changed. */
export function makeStore(initial) {
  const values = { ...initial };
  const listeners = new Set();
  return {
    get: (name) => values[name],
    set(changes) {
      const changed = Object.keys(changes).filter((name) => values[name] !== changes[name]);
      Object.assign(values, changes);
      if (changed.length) for (const listener of [...listeners]) listener(new Set(changed));
    },
    /** Calls a function with the names of what changed, until what is returned is called. */
    listen(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}
