/** Where the evidence of an answer is in the text that was written. */

import type { Decision } from "../api";
import { member } from "../member";
import { SHORT } from "./flag_forms";
import type { Span } from "./json_places";

const MAX_MARKED = 200_000;
/** The flags and variables within a span of the text from which the facts of the decision's reasons come, in order. */
export function marksOf(text: string, within: Span, decision: Decision): Span[] {
  if (within.end - within.start > MAX_MARKED) return [];
  const part = text.slice(within.start, within.end);
  const facts = decision.reasons.flatMap((reason) => Object.keys(reason.facts));
  const names = new Set(facts.filter((name) => isStated(decision, name)).flatMap(namesOf));
  const found: Span[] = [];
  for (const name of names) {
    const pattern = new RegExp(`(?<![\\w.-])${name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}(?![\\w-])`, "g");
    for (const match of part.matchAll(pattern)) {
      const start = within.start + match.index;
      found.push({ start, end: start + match[0].length });
    }
  }
  found.sort((one, other) => one.start - other.start);
  return found.filter((mark, n) => n === 0 || mark.start >= (found[n - 1]?.end ?? 0));
}

/** The marks of a text in another one, which differs in one place: those before and after it. */
export function moved(marks: readonly Span[], from: string, to: string): readonly Span[] {
  if (from === to || marks.length === 0) return marks;
  const shorter = Math.min(from.length, to.length);
  let before = 0;
  while (before < shorter && from.charCodeAt(before) === to.charCodeAt(before)) before += 1;
  let after = 0;
  while (after < shorter - before && from.charCodeAt(from.length - 1 - after) === to.charCodeAt(to.length - 1 - after))
    after += 1;
  const by = to.length - from.length;
  return marks.flatMap((mark) => {
    if (mark.end <= before) return [mark];
    return mark.start >= from.length - after ? [{ start: mark.start + by, end: mark.end + by }] : [];
  });
}

/** Whether a fact comes from what was written, and not from a default. */
function isStated(decision: Decision, name: string): boolean {
  const from = member(decision.facts, name)?.from;
  return from !== "default" && from !== "assumed";
}

/** How a fact is written: as a variable, a flag, or a member of facts. */
function namesOf(fact: string): string[] {
  const parts = fact.split(".");
  const last = parts.at(-1) ?? "";
  if (parts[0] === "env") return [last];
  const flags = [last, parts[0] ?? ""].flatMap((name) => [`--${name.replaceAll("_", "-")}`, `--${name}`]);
  const short = flags.flatMap((name) => SHORT.get(name) ?? []);
  return [...flags, ...short, last, ...(last === "use_v2_model_runner" ? [fact] : [])];
}
