/** The impact of a fleet as `runner-policy impact` and `POST /v1/impact` answer it, and its reader with places of faults. */

import { member } from "../member";
import type { ChangeValues } from "../remedy_text";

export interface Fault {
  readonly pointer: string;
  readonly message: string;
}
export interface ItemProblem {
  readonly title: string;
  readonly detail: string;
  readonly errors?: readonly Fault[];
}
export interface DecidedAnswer {
  readonly runner: string | null;
  readonly outcome: string | null;
  readonly starts: boolean;
  readonly startup_errors: readonly string[];
  readonly launch_errors: readonly string[];
  readonly reasons: readonly { readonly rule: string; readonly decisive: boolean; readonly message: string }[];
  readonly known_problems: readonly { readonly rule: string; readonly symptom: string; readonly certainty: string }[];
  readonly set_env: Readonly<Record<string, string>>;
}
interface UndecidedAnswer {
  readonly problem: ItemProblem;
}
export type ReleaseAnswer = DecidedAnswer | UndecidedAnswer;
export interface Difference {
  readonly new: readonly string[];
  readonly gone: readonly string[];
}
export interface ReleaseChange {
  readonly from: string;
  readonly to: string;
  readonly kind: string;
  readonly runner: readonly (string | null)[];
  readonly starts: readonly (boolean | null)[];
  readonly rules: readonly string[];
  readonly reasons: Difference;
  readonly known_problems: Difference;
  readonly startup_errors: Difference;
  readonly launch_errors: Difference;
  readonly set_env: readonly Readonly<Record<string, string>>[];
}
export interface Place {
  readonly file: string;
  readonly line?: number;
  readonly column?: number;
  readonly path?: string;
  /** The place in a request to the service, as a JSON pointer. */
  readonly pointer?: string;
}
/** The smallest changes that help in the last release; each was decided again. */
export interface Remedy {
  readonly for: string;
  readonly change: readonly ChangeValues[];
  readonly runner: string | null;
}
export interface Item {
  readonly name: string;
  readonly request_id: string | null;
  readonly place: Place | null;
  readonly problem?: ItemProblem;
  /** The release that the deployment runs, if that is compared with the others. */
  readonly from: string | null;
  readonly releases: Readonly<Record<string, ReleaseAnswer>>;
  readonly changes: readonly ReleaseChange[];
  readonly kind: string | null;
  /** What helps in the releases in which something does not do as it should; missing if it was not asked for. */
  readonly remedies?: Readonly<Record<string, readonly Remedy[]>>;
}
/** What is shown of a rule. */
export interface RuleText {
  readonly id: string;
  readonly title: string;
  readonly why: string;
  readonly remedy?: string | null;
  readonly references: string | readonly string[];
}
export interface FleetResult {
  readonly title: string;
  readonly targets: readonly string[];
  readonly items: readonly Item[];
  /** Whether all deployments were compared; an interrupted run has the first of them. */
  readonly complete: boolean;
  readonly rules: readonly RuleText[];
  /** The revision of the rules, and the day for which they decided; empty if not known. */
  readonly revision: string;
  readonly day: string;
}
type Reading = { readonly result: FleetResult } | { readonly faults: readonly Fault[] };

type Members = Readonly<Record<string, unknown>>;
const MAX_FAULTS = 20;
const NO_DIFFERENCE: Difference = { new: [], gone: [] };

function isMembers(value: unknown): value is Members {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** A value in a message, in at most about 60 characters. */
function shown(value: unknown): string {
  if (value === undefined) return "nothing";
  const text = JSON.stringify(value);
  return text.length > 60 ? `${text.slice(0, 60)}…` : text;
}

/** Reads members with their types, and notes each fault with its place. What has a fault is left empty. */
class Reader {
  readonly faults: Fault[] = [];

  expected(pointer: string, what: string, value: unknown): void {
    this.faults.push({ pointer, message: `expected ${what}, got ${shown(value)}` });
  }

  text(value: unknown, pointer: string): string {
    if (typeof value === "string") return value;
    this.expected(pointer, "a text", value);
    return "";
  }

  optionalText(value: unknown, pointer: string): string | null {
    return value === null || value === undefined ? null : this.text(value, pointer);
  }

  texts(value: unknown, pointer: string): readonly string[] {
    if (value === undefined || value === null) return [];
    if (Array.isArray(value) && value.every((each) => typeof each === "string")) return value;
    this.expected(pointer, "a list of texts", value);
    return [];
  }

  list<T>(value: unknown, pointer: string, read: (each: unknown, at: string) => T): readonly T[] {
    if (value === undefined || value === null) return [];
    if (Array.isArray(value)) return value.map((each, n) => read(each, `${pointer}/${n.toString()}`));
    this.expected(pointer, "a list", value);
    return [];
  }

  members(value: unknown, pointer: string): Members {
    if (isMembers(value)) return value;
    this.expected(pointer, "an object", value);
    return {};
  }

  optionalMembers(value: unknown, pointer: string): Members {
    return value === undefined || value === null ? {} : this.members(value, pointer);
  }

  variables(value: unknown, pointer: string): Readonly<Record<string, string>> {
    const found = this.optionalMembers(value, pointer);
    return Object.fromEntries(
      Object.entries(found).map(([name, each]) => [name, this.text(each, `${pointer}/${name}`)]),
    );
  }

  problem(value: unknown, pointer: string): ItemProblem {
    const found = this.members(value, pointer);
    const errors = this.list(found.errors, `${pointer}/errors`, (each, at) => {
      const fault = this.members(each, at);
      return {
        pointer: this.text(fault.pointer ?? "", `${at}/pointer`),
        message: this.text(fault.message, `${at}/message`),
      };
    });
    const title = this.optionalText(found.title, `${pointer}/title`) ?? "";
    return { title, detail: this.optionalText(found.detail, `${pointer}/detail`) ?? title, errors };
  }

  answer(value: unknown, pointer: string): ReleaseAnswer {
    const found = this.members(value, pointer);
    if (found.problem !== undefined && found.problem !== null)
      return { problem: this.problem(found.problem, `${pointer}/problem`) };
    if (typeof found.starts !== "boolean") this.expected(`${pointer}/starts`, "true or false", found.starts);
    return {
      runner: this.optionalText(found.runner, `${pointer}/runner`),
      outcome: this.optionalText(found.outcome, `${pointer}/outcome`),
      starts: found.starts === true,
      startup_errors: this.texts(found.startup_errors, `${pointer}/startup_errors`),
      launch_errors: this.texts(found.launch_errors, `${pointer}/launch_errors`),
      reasons: this.list(found.reasons, `${pointer}/reasons`, (each, at) => {
        const reason = this.members(each, at);
        const rule = this.text(reason.rule, `${at}/rule`);
        return { rule, decisive: reason.decisive === true, message: this.text(reason.message, `${at}/message`) };
      }),
      known_problems: this.list(found.known_problems, `${pointer}/known_problems`, (each, at) => {
        const problem = this.members(each, at);
        return {
          rule: this.text(problem.rule, `${at}/rule`),
          symptom: this.text(problem.symptom ?? "", `${at}/symptom`),
          certainty: this.text(problem.certainty ?? "", `${at}/certainty`),
        };
      }),
      set_env: this.variables(found.set_env, `${pointer}/set_env`),
    };
  }

  difference(value: unknown, pointer: string): Difference {
    if (value === undefined || value === null) return NO_DIFFERENCE;
    const found = this.members(value, pointer);
    return { new: this.texts(found.new, `${pointer}/new`), gone: this.texts(found.gone, `${pointer}/gone`) };
  }

  pair<T>(value: unknown, pointer: string, read: (each: unknown, at: string) => T, empty: T): readonly T[] {
    const found = this.list(value, pointer, read);
    return found.length === 2 ? found : [empty, empty];
  }

  change(value: unknown, pointer: string): ReleaseChange {
    const found = this.members(value, pointer);
    return {
      from: this.text(found.from, `${pointer}/from`),
      to: this.text(found.to, `${pointer}/to`),
      kind: this.text(found.kind, `${pointer}/kind`),
      runner: this.pair(found.runner, `${pointer}/runner`, (each, at) => this.optionalText(each, at), null),
      starts: this.pair(
        found.starts,
        `${pointer}/starts`,
        (each) => (typeof each === "boolean" ? each : null),
        null as boolean | null,
      ),
      rules: this.texts(found.rules, `${pointer}/rules`),
      reasons: this.difference(found.reasons, `${pointer}/reasons`),
      known_problems: this.difference(found.known_problems, `${pointer}/known_problems`),
      startup_errors: this.difference(found.startup_errors, `${pointer}/startup_errors`),
      launch_errors: this.difference(found.launch_errors, `${pointer}/launch_errors`),
      set_env: this.pair(found.set_env, `${pointer}/set_env`, (each, at) => this.variables(each, at), {}),
    };
  }

  remedy(value: unknown, pointer: string): Remedy {
    const found = this.members(value, pointer);
    return {
      for: this.text(found.for, `${pointer}/for`),
      change: this.list(found.change, `${pointer}/change`, (each, at) => {
        const change = this.members(each, at);
        const named = ["argument", "variable", "fact", "field"].filter((name) => member(change, name) !== undefined);
        const names = named.map((name) => [name, this.text(member(change, name), `${at}/${name}`)]);
        return { ...(Object.fromEntries(names) as ChangeValues), to: change.to ?? null };
      }),
      runner: this.optionalText(found.runner, `${pointer}/runner`),
    };
  }

  remedies(value: unknown, pointer: string): Record<string, readonly Remedy[]> {
    return Object.fromEntries(
      Object.entries(this.members(value, pointer)).map(([release, each]) => [
        release,
        this.list(each, `${pointer}/${release}`, (remedy, at) => this.remedy(remedy, at)),
      ]),
    );
  }

  place(value: unknown, pointer: string): Place | null {
    if (value === undefined || value === null) return null;
    const found = this.members(value, pointer);
    return {
      file: this.text(found.file ?? "", `${pointer}/file`),
      path: this.text(found.path ?? "", `${pointer}/path`),
      pointer: this.text(found.pointer ?? "", `${pointer}/pointer`),
      line: typeof found.line === "number" ? found.line : 0,
      column: typeof found.column === "number" ? found.column : 0,
    };
  }

  item(value: unknown, pointer: string): Item {
    const found = this.members(value, pointer);
    const problem =
      found.problem === undefined || found.problem === null
        ? {}
        : { problem: this.problem(found.problem, `${pointer}/problem`) };
    const id = this.optionalText(found.request_id, `${pointer}/request_id`);
    const releases = "problem" in problem ? {} : this.members(found.releases, `${pointer}/releases`);
    const place = this.place(found.place, `${pointer}/place`);
    return {
      name: this.optionalText(found.name, `${pointer}/name`) ?? id ?? place?.path ?? `deployment ${pointer}`,
      request_id: id,
      place,
      ...problem,
      from: this.optionalText(found.from, `${pointer}/from`),
      releases: Object.fromEntries(
        Object.entries(releases).map(([name, each]) => [name, this.answer(each, `${pointer}/releases/${name}`)]),
      ),
      changes: this.list(found.changes, `${pointer}/changes`, (each, at) => this.change(each, at)),
      kind: this.optionalText(found.kind, `${pointer}/kind`),
      ...(found.remedies === undefined ? {} : { remedies: this.remedies(found.remedies, `${pointer}/remedies`) }),
    };
  }
}

/** Whether a document is an impact: it has items with releases, or a problem in their place. */
export function isImpact(value: unknown): value is Members {
  if (!isMembers(value) || !Array.isArray(value.items)) return false;
  const first: unknown = value.items[0];
  return isMembers(first) && ("releases" in first || "place" in first);
}

/** The impact that a document has, or the faults in it. */
export function readImpact(value: Members): Reading {
  const reader = new Reader();
  const items: Item[] = [];
  const found = Array.isArray(value.items) ? (value.items as unknown[]) : [];
  for (const [n, each] of found.entries()) {
    items.push(reader.item(each, `/items/${n.toString()}`));
    if (reader.faults.length >= MAX_FAULTS) break;
  }
  const targets = reader.texts(value.targets ?? value.releases, "/targets");
  if (reader.faults.length > 0) return { faults: reader.faults };
  const complete = value.complete !== false;
  return { result: { title: "", targets, items, complete, rules: [], revision: "", day: "" } };
}

/** The document of JSON lines: the items, and whether the last line says that they are complete. `null` if it is none. */
export function linesAsImpact(text: string): Members | null {
  const items: unknown[] = [];
  let end: Members | null = null;
  for (const line of text.split("\n")) {
    if (line.trim() === "") continue;
    if (end !== null) return null;
    let value: unknown;
    try {
      value = JSON.parse(line);
    } catch {
      return null;
    }
    if (!isMembers(value)) return null;
    if ("counts" in value && !("name" in value)) end = value;
    else items.push(value);
  }
  return items.length > 0 ? { items, complete: end !== null && end.complete !== false } : null;
}
