/**
 * What is being edited: a loaded rule or condition or a new one, with its cases. Owns its kind and paths, and how it is
 * kept in a link.
 */

import { parseDocument } from "yaml";
import type { ConditionFile, RequestRuleFile, Rule, RuleFile } from "../api";
import { isObject, member } from "../member";
import { decoded, encoded } from "../fragment";
import type { Schema } from "./schema";
import type { Vocabulary } from "./vocabulary";

/** What a file is: a rule of a layer, a rule about requests, or a condition that rules name. */
export type Kind = "upstream" | "house" | "request" | "condition";

/** A file that is loaded, with its cases. */
export interface LoadedFile {
  readonly id: string;
  readonly kind: Kind;
  readonly file: string;
  readonly text: string;
  readonly cases: { readonly file: string; readonly text: string } | null;
  /** The rules that use a condition. */
  readonly usedBy: readonly string[];
}

export interface Draft {
  /** The loaded file; `null` for a new one. */
  readonly base: LoadedFile | null;
  readonly rule: string;
  readonly cases: string;
}
export const EMPTY: Draft = { base: null, rule: "", cases: "" };

/** What a link says: the id of a loaded rule, and the texts if they are edited. */
export interface Link {
  readonly id: string;
  readonly rule: string | null;
  readonly cases: string | null;
}

const CONDITION_FIELDS = new Set(["id", "why", "releases"]);
/** Stands before what is encoded, so that it is no id of a rule. */
const ENCODED = "~";

/** The link of an address's fragment. */
export async function linkOf(hash: string): Promise<Link> {
  const fragment = hash.replace(/^#/, "");
  if (!fragment.startsWith(ENCODED)) return { id: idIn(fragment), rule: null, cases: null };
  const value = await decoded(fragment.slice(ENCODED.length));
  const text = (name: string): string | null => {
    const found = isObject(value) ? member(value, name) : null;
    return typeof found === "string" ? found : null;
  };
  return { id: text("id") ?? "", rule: text("rule"), cases: text("cases") };
}

/** The fragment of a draft; empty for one that is too long for a link. */
export async function fragmentOf(draft: Draft): Promise<string> {
  const id = draft.base?.id ?? "";
  if (!isEdited(draft)) return id;
  const found = await encoded({ id, rule: draft.rule, cases: draft.cases });
  return found === "" ? "" : `${ENCODED}${found}`;
}

function idIn(fragment: string): string {
  try {
    return decodeURIComponent(fragment);
  } catch {
    return "";
  }
}

/** A file as the service has it. */
export function loadedFile(found: RuleFile | RequestRuleFile | ConditionFile): LoadedFile {
  const { id, file, text } = found;
  if ("used_by" in found) return { id, kind: "condition", file, text, cases: null, usedBy: found.used_by };
  const kind = "parameter" in found ? "request" : found.layer;
  return { id, kind, file, text, cases: found.cases, usedBy: [] };
}

/** Whether the texts are others than the loaded ones. */
export function isEdited({ base, rule, cases }: Draft): boolean {
  return rule !== (base?.text ?? "") || cases !== (base?.cases?.text ?? "");
}

/** What the text says of the rule, as far as it can be read. */
interface Head {
  readonly id: string;
  readonly effect: string;
  /** Whether it has the fields of a condition, and no others. */
  readonly isCondition: boolean;
}

export function headOf(text: string): Head {
  let value: unknown;
  try {
    value = parseDocument(text, { logLevel: "silent" }).toJS({ maxAliasCount: 100 });
  } catch {
    value = null;
  }
  const field = (name: string): string => {
    const found = isObject(value) ? member(value, name) : null;
    return typeof found === "string" ? found : "";
  };
  const isCondition =
    isObject(value) && "releases" in value && Object.keys(value).every((name) => CONDITION_FIELDS.has(name));
  return { id: field("id"), effect: field("effect"), isCondition };
}

/** Whether the draft replaces its loaded rule; with another id it is a rule of its own. */
export function replaces(draft: Draft, head: Head): boolean {
  return draft.base !== null && (head.id === "" || head.id === draft.base.id);
}

/**
 * What the draft is: what its loaded file is, and of a new one what its fields say. One that has cases is no condition:
 * it is a rule of which so far only such fields are written. A copy of a condition is one until it gets an effect.
 */
export function kindOf(draft: Draft, head: Head, vocabulary: Vocabulary): Kind {
  if (draft.base !== null && replaces(draft, head)) return draft.base.kind;
  const mayBeCondition = head.isCondition || (draft.base?.kind === "condition" && head.effect === "");
  if (mayBeCondition && draft.cases.trim() === "") return "condition";
  if (effectsOf(vocabulary.requestRule).includes(head.effect)) return "request";
  const isUpstream = effectsOf(vocabulary.upstreamRule).includes(head.effect);
  return isUpstream && !effectsOf(vocabulary.houseRule).includes(head.effect) ? "upstream" : "house";
}

/** The schema of a kind of file. */
export function schemaOf(kind: Kind, vocabulary: Vocabulary): Schema {
  switch (kind) {
    case "condition":
      return vocabulary.condition;
    case "request":
      return vocabulary.requestRule;
    case "house":
      return vocabulary.houseRule;
    case "upstream":
      return vocabulary.upstreamRule;
  }
}

/** The name of a file of a rule: its id if that is legal, else another one. */
export function fileName(head: Head, otherwise: string): string {
  return /^[a-z0-9]+(?:-[a-z0-9]+)*$/.test(head.id) ? head.id : otherwise;
}

/** The path of the draft in the rules folder. */
export function pathOf(draft: Draft, head: Head, kind: Kind, vocabulary: Vocabulary): string {
  if (draft.base !== null && replaces(draft, head)) return draft.base.file;
  const name = `${fileName(head, kind === "condition" ? "new-condition" : "new-rule")}.yaml`;
  if (kind === "house") return `house/${name}`;
  if (kind === "condition") return `upstream/conditions/${name}`;
  return `${kind === "request" ? "upstream/requests" : folderOf(head.effect, vocabulary.rules)}/${name}`;
}

/** The path of the cases of the rule at a path. */
export function casesPath(path: string): string {
  return path.replace(/\.yaml$/, "_test.yaml");
}

function effectsOf(schema: Schema): unknown[] {
  const properties = isObject(schema.properties) ? schema.properties : {};
  const effect = isObject(properties.effect) ? properties.effect : {};
  return Array.isArray(effect.enum) ? effect.enum : [];
}

/** The folder in which most upstream rules with an effect are. */
function folderOf(effect: string, rules: readonly Rule[]): string {
  const counts = new Map<string, number>();
  for (const rule of rules) {
    if (rule.layer !== "upstream" || rule.effect !== effect) continue;
    const folder = rule.file.slice(0, rule.file.lastIndexOf("/"));
    counts.set(folder, (counts.get(folder) ?? 0) + 1);
  }
  return [...counts].sort((one, other) => other[1] - one[1])[0]?.[0] ?? "upstream";
}
