/** The deployments of a fleet as rows: what they are filtered, ordered and counted by. */

import { member } from "../member";
import { causesOf, columnOf, type Column, KIND_NAMES, kindOf, NOT_DECIDED, UNCHANGED } from "./kinds";
import type { FleetResult, Item, ReleaseAnswer, ReleaseChange } from "./result";

/** The name of the column with the release that each deployment runs. */
export const NOW = "now";

/** The place of an argument in a message: the same flag of several deployments is one cause. */
const PLACE = / \((?:args|command)\[\d{1,6}\]\)/g;

export interface Cell {
  readonly release: string;
  readonly answer: ReleaseAnswer;
  readonly column: Column;
  readonly problems: number;
  /** The change that comes with the release; `null` if nothing changes. */
  readonly change: ReleaseChange | null;
}
export interface Row {
  readonly index: number;
  readonly item: Item;
  readonly kind: string;
  readonly rank: number;
  readonly change: ReleaseChange | null;
  readonly cause: string;
  /** One for each column; `null` if the deployment has no answer there. */
  readonly cells: readonly (Cell | null)[];
  readonly text: string;
}
export interface Rows {
  readonly columns: readonly string[];
  readonly all: readonly Row[];
}
export interface Filter {
  readonly find: string;
  readonly kind: string;
  readonly cause: string;
  readonly runs: string;
  readonly release: string;
  readonly problems: boolean;
  readonly order: string;
}
export const NO_FILTER: Filter = {
  find: "",
  kind: "",
  cause: "",
  runs: "",
  release: "",
  problems: false,
  order: "worst",
};

/** The columns: the release that runs now, if it is compared, and the releases that all are compared with. */
function columnsOf(result: FleetResult): readonly string[] {
  const hasOwn = result.items.some((item) => item.from !== null);
  const targets =
    result.targets.length > 0
      ? result.targets
      : [
          ...new Set(
            result.items.flatMap((item) => {
              const names = Object.keys(item.releases);
              return names.length > 1 ? names.filter((name) => name !== item.from) : names;
            }),
          ),
        ];
  return hasOwn ? [NOW, ...targets] : targets;
}

function cellOf(item: Item, column: string): Cell | null {
  const release = column === NOW ? item.from : column;
  const answer = release === null ? undefined : member(item.releases, release);
  if (release === null || answer === undefined) return null;
  const problems = "problem" in answer ? 0 : answer.known_problems.length;
  const isOwn = column === NOW;
  const change = isOwn ? null : (item.changes.find((each) => each.to === release) ?? null);
  return { release, answer, column: columnOf(answer), problems, change };
}

/** What a comparison says, which deployments with the same one share: the report has each different one once. */
type Said = Pick<Row, "kind" | "rank" | "change" | "cause" | "cells"> & { readonly rules: string };

function saidOf(item: Item, columns: readonly string[]): Said {
  const kind = kindOf(item);
  const isChange = kind !== UNCHANGED && kind !== NOT_DECIDED;
  const change = isChange ? (item.changes.find((each) => each.kind === item.kind) ?? null) : null;
  const answers = Object.values(item.releases);
  const rules = answers.flatMap((answer) =>
    "problem" in answer ? [] : [...answer.reasons, ...answer.known_problems].map((each) => each.rule),
  );
  return {
    kind,
    rank: rankOf(kind),
    change,
    cause: change === null ? "" : causesOf(change).join(", ").replace(PLACE, ""),
    cells: columns.map((column) => cellOf(item, column)),
    rules: [...new Set(rules)].join("\n"),
  };
}

/** The place of a kind, the worst first; what is not decided comes before all. */
function rankOf(kind: string): number {
  return kind === NOT_DECIDED ? -1 : KIND_NAMES.indexOf(kind);
}

/** The rows of a result, in its order. */
export function rowsOf(result: FleetResult): Rows {
  const columns = columnsOf(result);
  const known = new WeakMap<Item["releases"], Said>();
  const all = result.items.map((item, index): Row => {
    const shared = item.problem === undefined ? known.get(item.releases) : undefined;
    const { rules, ...said } = shared ?? saidOf(item, columns);
    if (item.problem === undefined && shared === undefined) known.set(item.releases, { rules, ...said });
    const parts = [item.name, item.request_id ?? "", item.place?.file ?? "", said.cause, rules];
    return { index, item, ...said, text: parts.join("\n").toLowerCase() };
  });
  return { columns, all };
}

/** Whether a row has, in the release of a filter or in any, what the filter names. */
function hasCell(row: Row, columns: readonly string[], filter: Filter): boolean {
  if (filter.runs === "" && !filter.problems) return true;
  return row.cells.some(
    (cell, n) =>
      cell !== null &&
      (filter.release === "" || columns[n] === filter.release) &&
      (filter.runs === "" || cell.column === filter.runs) &&
      (!filter.problems || cell.problems > 0),
  );
}

/** The key of what makes a row's change. */
function causeKey(row: Row): string {
  return row.change === null ? "" : `${row.kind} ${row.change.to} ${row.cause}`;
}

/** The rows that a filter leaves; those of every kind, and those of its kind in its order. */
export function filtered(rows: Rows, filter: Filter): { readonly ofAnyKind: Row[]; readonly shown: Row[] } {
  const words = filter.find.toLowerCase().split(/\s+/);
  const ofAnyKind = rows.all.filter(
    (row) =>
      words.every((word) => row.text.includes(word)) &&
      hasCell(row, rows.columns, filter) &&
      (filter.cause === "" || causeKey(row) === filter.cause),
  );
  const shown = filter.kind === "" ? [...ofAnyKind] : ofAnyKind.filter((row) => row.kind === filter.kind);
  if (filter.order === "worst") shown.sort((one, other) => one.rank - other.rank || one.index - other.index);
  if (filter.order === "name") shown.sort((one, other) => (one.item.name < other.item.name ? -1 : 1));
  return { ofAnyKind, shown };
}

interface KindCount {
  readonly kind: string;
  readonly number: number;
}

/** How many rows are of each kind that has any, the worst first; they add up to the rows. */
export function countsByKind(rows: readonly Row[]): readonly KindCount[] {
  const found = new Map<string, number>();
  for (const row of rows) found.set(row.kind, (found.get(row.kind) ?? 0) + 1);
  return [...found]
    .map(([kind, number]) => ({ kind, number }))
    .sort((one, other) => rankOf(one.kind) - rankOf(other.kind));
}

interface CauseCount {
  readonly key: string;
  readonly row: Row;
  readonly number: number;
}

/** What makes the changes, for how many rows: of the worst kind first, then by their number. */
export function countsByCause(rows: readonly Row[]): readonly CauseCount[] {
  const found = new Map<string, { row: Row; number: number }>();
  for (const row of rows) {
    if (row.change === null) continue;
    const key = causeKey(row);
    const counted = found.get(key);
    if (counted === undefined) found.set(key, { row, number: 1 });
    else counted.number += 1;
  }
  return [...found]
    .map(([key, counted]) => ({ key, ...counted }))
    .sort((one, other) => one.row.rank - other.row.rank || other.number - one.number);
}

/** How many rows each column has of each kind of answer. */
export function countsByColumn(rows: readonly Row[], columns: readonly string[]): readonly Record<Column, number>[] {
  const found = columns.map(() => ({ v1: 0, v2: 0, own: 0, no_start: 0, undecided: 0 }));
  for (const row of rows)
    row.cells.forEach((cell, n) => {
      const counts = found[n];
      if (cell !== null && counts !== undefined) counts[cell.column] += 1;
    });
  return found;
}
