/** What is being edited: a loaded rule or a new one, with its cases. Owns its paths and how it is kept in a link. */

import { parseDocument } from "yaml";
import type { Rule, RuleFile } from "../api";
import { isObject } from "../ask/input";
import { decoded, encoded } from "../fragment";
import type { Schema } from "./schema";
import type { Vocabulary } from "./vocabulary";

export interface Draft {
  /** The loaded rule; `null` for a new one. */
  readonly base: RuleFile | null;
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

/** Stands before what is encoded, so that it is no id of a rule. */
const ENCODED = "~";

/** The link of an address's fragment. */
export async function linkOf(hash: string): Promise<Link> {
  const fragment = hash.replace(/^#/, "");
  if (!fragment.startsWith(ENCODED)) return { id: idIn(fragment), rule: null, cases: null };
  const value = await decoded(fragment.slice(ENCODED.length));
  const text = (name: string): string | null =>
    isObject(value) && typeof value[name] === "string" ? value[name] : null;
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

/** Whether the texts are others than the loaded ones. */
export function isEdited({ base, rule, cases }: Draft): boolean {
  return rule !== (base?.text ?? "") || cases !== (base?.cases?.text ?? "");
}

/** What the text says of the rule, as far as it can be read. */
export interface Head {
  readonly id: string;
  readonly effect: string;
}

export function headOf(text: string): Head {
  let value: unknown;
  try {
    value = parseDocument(text, { logLevel: "silent" }).toJS({ maxAliasCount: 100 });
  } catch {
    value = null;
  }
  const field = (name: string): string => (isObject(value) && typeof value[name] === "string" ? value[name] : "");
  return { id: field("id"), effect: field("effect") };
}

/** Whether the draft replaces its loaded rule; with another id it is a rule of its own. */
export function replaces(draft: Draft, head: Head): boolean {
  return draft.base !== null && (head.id === "" || head.id === draft.base.id);
}

/** The schema of the draft's rule: that of its layer, and of a new rule the layer that has its effect. */
export function schemaOf(draft: Draft, head: Head, vocabulary: Vocabulary): Schema {
  return layerOf(draft, head, vocabulary) === "house" ? vocabulary.houseRule : vocabulary.upstreamRule;
}

/** The path of the draft in the rules folder. */
export function pathOf(draft: Draft, head: Head, vocabulary: Vocabulary): string {
  if (draft.base !== null && replaces(draft, head)) return draft.base.file;
  const name = `${/^[a-z0-9]+(?:-[a-z0-9]+)*$/.test(head.id) ? head.id : "new-rule"}.yaml`;
  if (layerOf(draft, head, vocabulary) === "house") return `house/${name}`;
  return `${folderOf(head.effect, vocabulary.rules)}/${name}`;
}

/** The path of the cases of the rule at a path. */
export function casesPath(path: string): string {
  return path.replace(/\.yaml$/, "_test.yaml");
}

function layerOf(draft: Draft, head: Head, vocabulary: Vocabulary): string {
  if (draft.base !== null && replaces(draft, head)) return draft.base.layer;
  return effectsOf(vocabulary.houseRule).includes(head.effect) ||
    !effectsOf(vocabulary.upstreamRule).includes(head.effect)
    ? "house"
    : "upstream";
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
