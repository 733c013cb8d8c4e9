/** What the page reads of a rule or a condition: the releases in which it holds, and its topic. */

/** What has a history: a rule, a rule about requests, or a condition. */
export interface WithHistory {
  readonly releases: readonly { readonly vllm: string }[];
  readonly gaps?: readonly { readonly vllm: string; readonly why: string }[];
}
type Bound = readonly [operator: string, release: string];

/** The order of two releases: negative if the first is older; `0.4.0.post1` follows `0.4.0`. */
export function compare(one: string, other: string): number {
  const [left, right] = [one, other].map((text) => text.replace("post", "").split(".").map(Number));
  for (let n = 0; n < 4; n += 1) {
    const difference = (left?.[n] ?? 0) - (right?.[n] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

function bounds(range: string): Bound[] {
  return range.split(",").map((part) => {
    const found = /^\s*(>=|<=|==|<|>)\s*(\S+)\s*$/.exec(part);
    return [found?.[1] ?? "", found?.[2] ?? ""] as const;
  });
}

function isWithin(release: string, [operator, bound]: Bound): boolean {
  const order = compare(release, bound);
  switch (operator) {
    case ">=":
      return order >= 0;
    case "<=":
      return order <= 0;
    case "<":
      return order < 0;
    case ">":
      return order > 0;
    case "==":
      return order === 0;
    default:
      return false;
  }
}

/** Whether a range, as a rule writes it, has a release. */
export function isIn(range: string, release: string): boolean {
  return bounds(range).every((bound) => isWithin(release, bound));
}

/** Whether one of its ranges has a release. */
export function holdsIn(item: WithHistory, release: string): boolean {
  return item.releases.some((range) => isIn(range.vllm, release));
}

/** Releases one after the other for which the same is true. */
export interface Span {
  readonly first: string;
  readonly last: string;
  readonly length: number;
  readonly holds: boolean;
}

/** The releases, from the oldest, in as few spans as there can be. */
export function spansOf(item: WithHistory, releases: readonly string[]): Span[] {
  const ranges = item.releases.map((range) => bounds(range.vllm));
  const spans: Span[] = [];
  for (const release of releases) {
    const holds = ranges.some((range) => range.every((bound) => isWithin(release, bound)));
    const before = spans.at(-1);
    if (before?.holds === holds) spans[spans.length - 1] = { ...before, last: release, length: before.length + 1 };
    else spans.push({ first: release, last: release, length: 1, holds });
  }
  return spans;
}

/** The folder of a file within its layer, such as `known-problems`. */
export function topicOf(file: string): string {
  return file.split("/").slice(1, -1).join("/") || "house";
}
