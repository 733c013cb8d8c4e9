/** Members of objects whose names come from elsewhere: `__proto__` and `constructor` are names like any other. */

/** Whether a value is an object with members. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The member that an object has by itself; `undefined` if it has none of that name. */
export function member<T>(object: Readonly<Record<string, T>> | null | undefined, name: string): T | undefined {
  if (object === null || object === undefined || !Object.hasOwn(object, name)) return undefined;
  // eslint-disable-next-line local/no-foreign-names -- the one place that reads by name, of the object's own members
  return object[name];
}

/** The object with another value of a member. */
export function withMember<T>(object: Readonly<Record<string, T>>, name: string, value: NoInfer<T>): Record<string, T> {
  return { ...object, [name]: value };
}

/** The object without a member. */
export function withoutMember<T>(object: Readonly<Record<string, T>>, name: string): Record<string, T> {
  return Object.fromEntries(Object.entries(object).filter(([each]) => each !== name));
}
