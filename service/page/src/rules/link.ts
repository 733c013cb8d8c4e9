/** The rule that is shown and the filters, as the address's fragment has them: `ID?query=words&release=0.30.0`. */

export interface Filters {
  readonly query: string;
  readonly kind: string;
  readonly layer: string;
  readonly effect: string;
  readonly topic: string;
  readonly release: string;
}
export const NO_FILTERS: Filters = { query: "", kind: "", layer: "", effect: "", topic: "", release: "" };
/** The longest query, in characters; it is in the address of every rule that is listed. */
export const MAX_QUERY = 1000;
const NAMES = ["query", "kind", "layer", "effect", "topic", "release"] as const;

export interface Link {
  readonly id: string;
  readonly filters: Filters;
}

/** What a fragment says. */
export function filtersOf(hash: string): Link {
  const [id = "", rest = ""] = hash.replace(/^#/, "").split("?", 2);
  const values = new URLSearchParams(rest);
  const filters = Object.fromEntries(
    NAMES.map((name) => [name, (values.get(name) ?? "").slice(0, MAX_QUERY)]),
  ) as unknown as Filters;
  return { id: decode(id), filters };
}

/** The fragment that says it. */
export function linkOf({ id, filters }: Link): string {
  const values = new URLSearchParams(NAMES.filter((name) => filters[name] !== "").map((name) => [name, filters[name]]));
  const rest = values.toString();
  return rest === "" ? encodeURIComponent(id) : `${encodeURIComponent(id)}?${rest}`;
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
