/** What the loaded rules and the service offer to an author: schemas, facts, releases, rules and conditions. */

import { get, type FactDefinition, type Problem, type Rule, type RuleCatalogue } from "../api";
import { knownReleases } from "../ask/strip";
import type { Schema } from "./schema";

export interface Vocabulary {
  readonly rules: readonly Rule[];
  readonly conditions: RuleCatalogue["conditions"];
  readonly releases: readonly string[];
  readonly facts: ReadonlyMap<string, FactDefinition>;
  readonly upstreamRule: Schema;
  readonly houseRule: Schema;
  readonly cases: Schema;
}

/** Everything that the editor needs, or the problem with the first of it that cannot be had. */
export async function loadVocabulary(signal: AbortSignal): Promise<Vocabulary | { readonly problem: Problem }> {
  const [catalogue, facts, upstreamRule, houseRule, cases, releases] = await Promise.all([
    get<RuleCatalogue>("v1/rules", signal),
    get<{ facts: FactDefinition[] }>("v1/facts", signal),
    get<Schema>("v1/schemas/rule", signal),
    get<Schema>("v1/schemas/house-rule", signal),
    get<Schema>("v1/schemas/cases", signal),
    knownReleases(),
  ]);
  if ("problem" in catalogue) return catalogue;
  if ("problem" in facts) return facts;
  if ("problem" in upstreamRule) return upstreamRule;
  if ("problem" in houseRule) return houseRule;
  if ("problem" in cases) return cases;
  return {
    rules: catalogue.value.rules,
    conditions: catalogue.value.conditions,
    releases,
    facts: new Map(facts.value.facts.map((fact) => [fact.name, fact])),
    upstreamRule: upstreamRule.value,
    houseRule: houseRule.value,
    cases: cases.value,
  };
}
