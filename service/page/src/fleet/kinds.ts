/** The kinds of changes, the worst first, and what a release does with a deployment, in words and colours. */

import type { Item, ReleaseAnswer, ReleaseChange } from "./result";

export const UNCHANGED = "unchanged";
export const NOT_DECIDED = "not-decided";

interface Kind {
  readonly label: string;
  readonly meaning: string;
  readonly tone: string;
}

/** The kinds as `runner-policy impact` has them, then what is no change. */
const KIND_LIST: readonly (readonly [string, Kind])[] = Object.entries({
  "no-start": { label: "stops starting", meaning: "vLLM no longer starts: it refuses the runner", tone: "stops" },
  "launch-error": {
    label: "launch refused",
    meaning: "vLLM no longer starts: it refuses the arguments or the configuration",
    tone: "stops",
  },
  undecided: { label: "undecided", meaning: "one of the releases cannot be decided", tone: "unknown" },
  "runner-with-known-problem": {
    label: "flips, problem",
    meaning: "another runner, of which a new problem is known",
    tone: "v1",
  },
  "runner-v1-to-v2": { label: "V1 to V2", meaning: "V1 becomes V2", tone: "v2" },
  "runner-v2-to-v1": { label: "V2 to V1", meaning: "V2 becomes V1", tone: "v1" },
  "runner-other": { label: "other runner", meaning: "a runner other than V1 and V2, before or after", tone: "own" },
  "known-problem": {
    label: "new problem",
    meaning: "the same runner, of which a new problem is known",
    tone: "v1",
  },
  "set-env": { label: "variable", meaning: "the variable to set appears, changes or can go", tone: "own" },
  start: { label: "starts again", meaning: "vLLM starts, and did not before", tone: "v2" },
  reasons: { label: "reasons only", meaning: "the reasons, errors or known problems only", tone: "unknown" },
  [UNCHANGED]: { label: "unchanged", meaning: "nothing changes", tone: "unknown" },
  [NOT_DECIDED]: { label: "not decided", meaning: "no release can be decided", tone: "stops" },
});
export const KINDS: ReadonlyMap<string, Kind> = new Map(KIND_LIST);
export const KIND_NAMES = [...KINDS.keys()];

/** What a release does with a deployment, as the counts of a release have it. */
export type Column = "v1" | "v2" | "own" | "no_start" | "undecided";
export const COLUMNS: readonly Column[] = ["v1", "v2", "own", "no_start", "undecided"];
export const COLUMN_WORDS: Readonly<Record<Column, string>> = {
  v1: "V1",
  v2: "V2",
  own: "own runner",
  no_start: "will not start",
  undecided: "undecided",
};
export const COLUMN_SIGNS: Readonly<Record<Column, string>> = {
  v1: "V1",
  v2: "V2",
  own: "own",
  no_start: "✕",
  undecided: "?",
};
export const COLUMN_TONES: Readonly<Record<Column, string>> = {
  v1: "v1",
  v2: "v2",
  own: "own",
  no_start: "stops",
  undecided: "unknown",
};

export function columnOf(answer: ReleaseAnswer): Column {
  if ("problem" in answer) return "undecided";
  if (!answer.starts) return "no_start";
  return answer.runner === "v1" || answer.runner === "v2" ? answer.runner : "own";
}

/** The kind of a deployment: its worst change, that it has none, or that no release can be decided. */
export function kindOf(item: Item): string {
  const answers = Object.values(item.releases);
  if (item.problem !== undefined || answers.every((answer) => "problem" in answer)) return NOT_DECIDED;
  return item.kind ?? UNCHANGED;
}

/** The label of a kind; one that is not known, such as of a later version, is its own. */
export function labelOf(kind: string): string {
  return KINDS.get(kind)?.label ?? kind;
}

function runs(change: ReleaseChange, at: number): string {
  const starts = change.starts[at] ?? null;
  if (starts === null) return "undecided";
  return starts ? (change.runner[at]?.toUpperCase() ?? "own runner") : "no start";
}

/** What runs before and after a change, such as `V1 → V2`. */
export function stepText(change: ReleaseChange): string {
  return `${runs(change, 0)} → ${runs(change, 1)}`;
}

/** The rules, known problems or errors that make a change. */
export function causesOf(change: ReleaseChange): readonly string[] {
  const isFlip = change.runner[0] !== change.runner[1];
  const problems = change.known_problems;
  const found =
    change.kind === "runner-with-known-problem" || change.kind === "known-problem"
      ? [...problems.new, ...(isFlip ? change.rules : [])]
      : change.kind === "launch-error"
        ? change.launch_errors.new
        : change.rules.length > 0
          ? change.rules
          : [...problems.new, ...problems.gone];
  const errors = [change.startup_errors, change.launch_errors];
  return [...new Set(found.length > 0 ? found : errors.flatMap((each) => [...each.new, ...each.gone]))];
}
