/** What can be written at a place of a rule or of its cases, with what it means. */

import {
  type Completion,
  type CompletionContext,
  type CompletionResult,
  pickedCompletion,
} from "@codemirror/autocomplete";
import type { EditorView } from "@codemirror/view";
import { parseDocument } from "yaml";
import { isObject } from "../member";
import { placeAt, type Place } from "./place";
import { descriptionOf, illegalKeys, keysOf, type Schema, schemasAt, shapeOf, valuesOf } from "./schema";
import type { Vocabulary } from "./vocabulary";

/** What a text is: its schema, and what the loaded rules offer for it. */
export interface Language {
  readonly schema: Schema;
  readonly vocabulary: Vocabulary;
}

const SCOPES = ["requires_any", "unless", "decided_by"];
const TEXTS = ["message", "feature", "text"];

/** The completions at the cursor; `null` where nothing is known. */
export function completionsAt(context: CompletionContext, language: Language): CompletionResult | null {
  const text = context.state.doc.toString();
  const place = placeAt(text, context.pos);
  if (!context.explicit && place.typed === "" && place.kind !== "value") return null;
  const fact = factInText(place, context.pos, language);
  if (fact !== null) return fact;
  if (place.kind === "text") return null;
  const options = optionsAt(place, text, language);
  return options.length === 0 ? null : { from: place.from, options, validFor: /^[\w.<>=,"'-]*$/ };
}

/** What the key before a position means; `null` if the schema does not say. */
export function meaningAt(text: string, from: number, key: string, language: Language): string | null {
  const place = placeAt(text, from);
  const schema = keysOf(schemasAt(language.schema, place.path)).get(key);
  return schema === undefined ? null : meaning(key, schema, language) || null;
}

function optionsAt(place: Place, text: string, language: Language): Completion[] {
  const schemas = schemasAt(language.schema, place.path);
  const values = place.kind === "key" ? [] : valueOptions(place, schemas, language);
  return place.kind === "value" ? values : [...values, ...keyOptions(place, text, schemas, language)];
}

function keyOptions(place: Place, text: string, schemas: readonly Schema[], language: Language): Completion[] {
  const keys = keysOf(schemas);
  if (keys.size === 0) return [];
  const document = documentOf(text);
  const effect = isObject(document) && typeof document.effect === "string" ? document.effect : "";
  const isOfRule = place.path.length === 0 || (place.path.length === 2 && place.path[0] === "releases");
  const illegal = isOfRule ? illegalKeys(language.schema, effect, place.path.length > 0) : new Set<string>();
  const present = new Set(place.path.length === 0 && isObject(document) ? Object.keys(document) : []);
  return [...keys]
    .filter(([name]) => !illegal.has(name) && (!present.has(name) || name === place.typed))
    .map(([name, schema]) => ({
      label: name,
      type: "property",
      detail: language.vocabulary.facts.get(name)?.type ?? "",
      info: meaning(name, schema, language),
      apply: applyKey(name, place, shapeOf(language.schema, schema)),
    }));
}

/** Writes a key with its colon, if it has none yet, and begins what belongs below it. */
function applyKey(name: string, place: Place, shape: "items" | "keys" | "scalar") {
  return (view: EditorView, completion: Completion, from: number, to: number): void => {
    const rest = view.state.doc.lineAt(to).text.slice(to - view.state.doc.lineAt(to).from);
    const written = /^[\w.-]*\s*:/.exec(rest);
    let end = to;
    let insert = name;
    if (written) end = to + (/^[\w.-]*/.exec(rest)?.[0].length ?? 0);
    else if (place.column === null || shape === "scalar" || rest.trim() !== "") insert += ": ";
    else insert += `:\n${" ".repeat(place.column + 2)}${shape === "items" ? "- " : ""}`;
    view.dispatch({
      changes: { from, to: end, insert },
      selection: { anchor: from + insert.length },
      userEvent: "input.complete",
      annotations: pickedCompletion.of(completion),
      scrollIntoView: true,
    });
  };
}

function valueOptions(place: Place, schemas: readonly Schema[], { vocabulary }: Language): Completion[] {
  const key = place.path.findLast((step) => step !== null) ?? "";
  const { rules, conditions, releases } = vocabulary;
  const named = (labels: readonly (readonly [string, string])[], type: string): Completion[] =>
    labels.map(([label, info]) => ({ label, info, type }));
  if (key === "vllm" && place.path.at(-1) === "vllm" && schemas.some((each) => "maxLength" in each)) {
    const newest = [...releases].reverse().filter((release) => /\.0$/.test(release));
    return newest.map((release, n) => {
      const label = `">=${release.replace(/\.0$/, "")}"`;
      return { label, info: "from this release on", type: "constant", boost: -n };
    });
  }
  if (key === "vllm" || key === "fixed_in") {
    return [...releases].reverse().map((label, n) => ({ label, type: "constant", boost: -n }));
  }
  if (key === "uses")
    return named(
      conditions.map((each) => [each.id, each.why] as const),
      "variable",
    );
  if (key === "known_problem") {
    const problems = rules.filter((rule) => rule.effect === "known-problem");
    return named(
      problems.map((rule) => [rule.id, rule.title] as const),
      "variable",
    );
  }
  if (key === "rule")
    return named(
      rules.map((rule) => [rule.id, rule.title] as const),
      "variable",
    );
  if (SCOPES.includes(key)) {
    const effects = [...new Set(rules.map((rule) => rule.effect))].map((effect) => [effect, "an effect"] as const);
    return [
      ...named(effects, "enum"),
      ...named(
        rules.map((rule) => [rule.id, rule.title] as const),
        "variable",
      ),
    ];
  }
  return valuesOf(schemas).map((label) => ({ label, type: "enum", info: partOf(schemas, label) }));
}

/** The facts that a text of a rule can show, after `{`. */
function factInText(place: Place, position: number, { vocabulary }: Language): CompletionResult | null {
  const key = place.path.findLast((step) => step !== null) ?? "";
  const open = /\{([\w.]*)$/.exec(place.typed);
  if (!TEXTS.includes(key) || open === null || (place.kind !== "value" && place.kind !== "text")) return null;
  const options = [...vocabulary.facts.values()].map((fact) => ({
    label: fact.name,
    detail: fact.type,
    info: fact.meaning,
    type: "variable",
    apply: `${fact.name}}`,
  }));
  return { from: position - (open[1]?.length ?? 0), options, validFor: /^[\w.]*$/ };
}

/** What a key means; of a fact also its values, and the releases whose rules read it. */
function meaning(name: string, schema: Schema, language: Language): string {
  const said = descriptionOf(language.schema, schema);
  const fact = language.vocabulary.facts.get(name);
  if (fact === undefined) return said;
  const readers = fact.read_by;
  const read =
    readers.length === 0
      ? "read by no loaded rule"
      : `read by rules of ${readers[0] ?? ""}${readers.length > 1 ? ` to ${readers.at(-1) ?? ""}` : ""}`;
  return `${said}; legal: ${fact.legal}; ${read}`;
}

/** The part of a description that is about a value: `value: what it means; …`. */
function partOf(schemas: readonly Schema[], value: string): string {
  for (const schema of schemas) {
    const said = typeof schema.description === "string" ? schema.description : "";
    const part = said.split("; ").find((each) => each.startsWith(`${value}: `));
    if (part !== undefined) return part.slice(value.length + 2);
  }
  return "";
}

/** The text as a document, as far as it can be read. */
function documentOf(text: string): unknown {
  try {
    return parseDocument(text, { logLevel: "silent" }).toJS({ maxAliasCount: 100 }) as unknown;
  } catch {
    return null;
  }
}
