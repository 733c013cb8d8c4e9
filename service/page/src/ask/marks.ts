/** Where the evidence of an answer stands in the text that was written. */

import type { Decision } from "../api";

export interface Mark {
  readonly start: number;
  readonly end: number;
}

const MAX_MARKED = 200_000;

/** The flags and variables in the text from which the facts of the decision's reasons come, in order. */
export function marksOf(text: string, decision: Decision): Mark[] {
  if (text.length > MAX_MARKED) return [];
  const facts = decision.reasons.flatMap((reason) => Object.keys(reason.facts));
  const names = new Set(facts.filter((name) => isStated(decision, name)).flatMap(namesOf));
  const found: Mark[] = [];
  for (const name of names) {
    const pattern = new RegExp(`(?<![\\w.-])${name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}(?![\\w-])`, "g");
    for (const match of text.matchAll(pattern)) found.push({ start: match.index, end: match.index + match[0].length });
  }
  found.sort((one, other) => one.start - other.start);
  return found.filter((mark, n) => n === 0 || mark.start >= (found[n - 1]?.end ?? 0));
}

/** Whether a fact comes from what was written, and not from a default. */
function isStated(decision: Decision, name: string): boolean {
  const from = decision.facts?.[name]?.from;
  return from !== "default" && from !== "assumed";
}

/** How a fact is written: as a variable, a flag, or a member of facts. */
function namesOf(fact: string): string[] {
  const parts = fact.split(".");
  const last = parts.at(-1) ?? "";
  if (parts[0] === "env") return [last];
  const flag = (name: string): string => `--${name.replaceAll("_", "-")}`;
  return [flag(last), flag(parts[0] ?? ""), last, ...(last === "use_v2_model_runner" ? [fact] : [])];
}
