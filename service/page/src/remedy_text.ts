/** What would help a deployment, in words. */

/** A change of an argument, a variable, a stated fact or a field of the request. */
export interface ChangeValues {
  readonly argument?: string;
  readonly variable?: string;
  readonly fact?: string;
  readonly field?: string;
  readonly to?: unknown;
}

const GOALS: ReadonlyMap<string, string> = new Map([
  ["start", "so that it starts"],
  ["v2", "to get V2"],
]);

/** What a remedy is for. */
export function goalText(purpose: string): string {
  return GOALS.get(purpose) ?? `to avoid ${purpose}`;
}

/** A change: what to set, replace or drop. */
export function changeText(change: ChangeValues): string {
  const name = change.argument ?? change.variable ?? change.fact ?? change.field ?? "";
  if (change.to === null) return `drop ${name}`;
  if (change.argument !== undefined && typeof change.to === "boolean")
    return change.to ? `add ${name}` : `pass --no-${name.replace(/^--/, "")}`;
  return `set ${name} to ${shown(change.to)}`;
}

/** A value as people write it. */
export function shown(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}
