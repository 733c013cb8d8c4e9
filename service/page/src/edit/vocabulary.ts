/** What the loaded rules and the service offer to an author: schemas, facts, releases, rules and conditions. */

import { get, type FactDefinition, type Problem, type RequestRule, type Rule, type RuleCatalogue } from "../api";
import { knownReleases } from "../ask/strip";
import type { Schema } from "./schema";

export interface Vocabulary {
  readonly rules: readonly Rule[];
  readonly requestRules: readonly RequestRule[];
  readonly conditions: RuleCatalogue["conditions"];
  readonly releases: readonly string[];
  readonly facts: ReadonlyMap<string, FactDefinition>;
  readonly upstreamRule: Schema;
  readonly houseRule: Schema;
  readonly requestRule: Schema;
  readonly condition: Schema;
  readonly cases: Schema;
  readonly requestCases: Schema;
}

/** Everything that the editor needs, or the problem with the first of it that cannot be had. */
export async function loadVocabulary(signal: AbortSignal): Promise<Vocabulary | { readonly problem: Problem }> {
  const schema = (name: string) => get<Schema>(`v1/schemas/${name}`, signal);
  const [catalogue, facts, releases, ...schemas] = await Promise.all([
    get<RuleCatalogue>("v1/rules", signal),
    get<{ facts: FactDefinition[] }>("v1/facts", signal),
    knownReleases(),
    schema("rule"),
    schema("house-rule"),
    schema("request-rule"),
    schema("condition"),
    schema("cases"),
    schema("request-cases"),
  ]);
  if ("problem" in catalogue) return catalogue;
  if ("problem" in facts) return facts;
  const found: Schema[] = [];
  for (const each of schemas) {
    if ("problem" in each) return each;
    found.push(each.value);
  }
  const [upstreamRule = {}, houseRule = {}, requestRule = {}, condition = {}, cases = {}, requestCases = {}] = found;
  return {
    rules: catalogue.value.rules,
    requestRules: catalogue.value.request_rules,
    conditions: catalogue.value.conditions,
    releases,
    facts: new Map(facts.value.facts.map((fact) => [fact.name, fact])),
    upstreamRule,
    houseRule,
    requestRule,
    condition,
    cases,
    requestCases,
  };
}
