/** What the catalogue lists: rules, rules about requests and named conditions, with what they are searched by. */

import type { Condition, RequestRule, Rule, RuleCatalogue } from "../api";
import { topicOf } from "./rule";

type Item =
  | { readonly kind: "rule"; readonly item: Rule }
  | { readonly kind: "rule about requests"; readonly item: RequestRule }
  | { readonly kind: "condition"; readonly item: Condition };
export type Entry = Item & {
  readonly id: string;
  readonly title: string;
  readonly layer: string;
  /** Empty for a condition, which has none. */
  readonly effect: string;
  readonly topic: string;
  /** All its texts in lower case. */
  readonly text: string;
};
export const KINDS: readonly Entry["kind"][] = ["rule", "rule about requests", "condition"];

/** The entries of the loaded catalogue, in its order. */
export function entriesOf({ rules, request_rules: requestRules, conditions }: RuleCatalogue): Entry[] {
  return [
    ...rules.map((item) => entry({ kind: "rule", item })),
    ...requestRules.map((item) => entry({ kind: "rule about requests", item })),
    ...conditions.map((item) => entry({ kind: "condition", item })),
  ];
}

function entry(found: Item): Entry {
  const { id, file } = found.item;
  const { title, layer, effect } =
    found.kind === "condition" ? { title: id, layer: file.split("/")[0] ?? "", effect: "" } : found.item;
  return { ...found, id, title, layer, effect, topic: topicOf(file), text: JSON.stringify(found.item).toLowerCase() };
}
