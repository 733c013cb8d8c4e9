/** What a JSON Schema says of a place: the keys and values that are legal there, and their descriptions. */

import { isObject, member } from "../member";
import type { Path } from "./place";

export type Schema = Readonly<Record<string, unknown>>;

/** The schemas of a place; several where the schema has alternatives, none where nothing is known. */
export function schemasAt(root: Schema, path: Path): Schema[] {
  let found = alternatives(root, root);
  for (const step of path) found = found.flatMap((schema) => child(schema, step).flatMap((c) => alternatives(root, c)));
  return found;
}

/** The keys of a place, with their schemas. */
export function keysOf(schemas: readonly Schema[]): Map<string, Schema> {
  const keys = new Map<string, Schema>();
  for (const schema of schemas) {
    for (const [name, value] of Object.entries(isObject(schema.properties) ? schema.properties : {})) {
      if (isObject(value) && !keys.has(name)) keys.set(name, value);
    }
  }
  return keys;
}

/** The values of a place that the schema names, as YAML. */
export function valuesOf(schemas: readonly Schema[]): string[] {
  const values = schemas.flatMap((schema) => {
    if (Array.isArray(schema.enum)) return schema.enum as unknown[];
    if ("const" in schema) return [schema.const];
    return schema.type === "boolean" ? [true, false] : [];
  });
  return [...new Set(values.map((value) => (typeof value === "string" ? value : JSON.stringify(value))))];
}

/** Whether a value of the place is written below its key: as items, or as keys. */
export function shapeOf(root: Schema, schema: Schema): "items" | "keys" | "scalar" {
  const found = alternatives(root, schema);
  if (found.some((each) => each.type === undefined || !["array", "object"].includes(typeText(each)))) return "scalar";
  return found.some((each) => typeText(each) === "array") ? "items" : "keys";
}

/** What a schema says of itself. */
export function descriptionOf(root: Schema, schema: Schema): string {
  const found = [schema, ...alternatives(root, schema)].find((each) => typeof each.description === "string");
  return typeof found?.description === "string" ? found.description : "";
}

/** The keys that a rule's effect rules out, in the rule or in its ranges. */
export function illegalKeys(root: Schema, effect: string, inRange: boolean): Set<string> {
  const illegal = new Set<string>();
  for (const branch of listOf(root.allOf)) {
    const found = isObject(branch.if) ? get(branch.if, "properties", "effect", "const") : undefined;
    if (found !== effect || !isObject(branch.then)) continue;
    for (const part of listOf(branch.then.allOf)) {
      const holder = inRange ? get(part, "properties", "releases", "items", "properties") : part.properties;
      if (!isObject(holder)) continue;
      for (const [name, value] of Object.entries(holder)) if (value === false) illegal.add(name);
    }
  }
  return illegal;
}

function alternatives(root: Schema, schema: Schema): Schema[] {
  if (typeof schema.$ref === "string") {
    const target = get(root, ...schema.$ref.replace(/^#\//, "").split("/"));
    return isObject(target) ? alternatives(root, target) : [];
  }
  const parts = [...listOf(schema.anyOf), ...listOf(schema.oneOf)].filter((part) => !("required" in part));
  return parts.length > 0 ? parts.flatMap((part) => alternatives(root, part)) : [schema];
}

function child(schema: Schema, step: string | null): Schema[] {
  const found =
    step === null ? schema.items : ((get(schema, "properties", step) ?? schema.additionalProperties) as unknown);
  return isObject(found) ? [found] : [];
}

function get(value: unknown, ...steps: string[]): unknown {
  return steps.reduce<unknown>((found, step) => (isObject(found) ? member(found, step) : undefined), value);
}

function listOf(value: unknown): Record<string, unknown>[] {
  return Array.isArray(value) ? value.filter(isObject) : [];
}

function typeText(schema: Schema): string {
  return typeof schema.type === "string" ? schema.type : "";
}
