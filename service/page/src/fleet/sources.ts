/** What was dropped or pasted: an impact result, or deployments that the service compares. */

import type { Problem } from "../api";
import { type DecisionRequest, readInput } from "../ask/input";
import { readJson } from "../ask/json_text";
import { isObject } from "../member";
import { type FleetResult, isImpact, linesAsImpact, readImpact } from "./result";

export interface Source {
  readonly name: string;
  readonly text: string;
}
/** A deployment with the name of its source. */
export interface Deployment {
  readonly source: string;
  readonly request: DecisionRequest;
}
export type Fleet =
  { readonly result: FleetResult } | { readonly deployments: readonly Deployment[] } | { readonly problem: Problem };

const REQUEST_FIELDS = ["facts", "deployment", "manifest"];
const MEBIBYTE = 1 << 20;
const EXPECTED = "expected an impact result, manifests, requests or commands, got something else";

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

function isRequest(value: unknown): value is DecisionRequest {
  return isObject(value) && REQUEST_FIELDS.some((field) => field in value);
}

/** The requests of JSON lines; `null` if a line is none. */
function requestsOfLines(text: string): DecisionRequest[] | null {
  const lines = text.split("\n").filter((line) => line.trim() !== "");
  if (lines.length < 2) return null;
  const found: DecisionRequest[] = [];
  for (const line of lines) {
    const value = readJson(line);
    if (!isRequest(value)) return null;
    found.push(value);
  }
  return found;
}

/** The requests of a text: JSON of any length, JSON lines, or what the view Ask takes. */
function requestsOf(text: string): readonly DecisionRequest[] | string {
  const value = readJson(text);
  if (isObject(value) && Array.isArray(value.items) && value.items.length === 0) return EXPECTED;
  if (isObject(value) && Array.isArray(value.deployments) && value.deployments.every(isRequest))
    return value.deployments;
  if (isRequest(value)) return [value];
  if (Array.isArray(value) && value.length > 0 && value.every(isRequest)) return value;
  if (text.length > MEBIBYTE && (isObject(value) || Array.isArray(value))) return [{ manifest: value }];
  const lines = requestsOfLines(text);
  if (lines !== null) return lines;
  const input = readInput(text, MEBIBYTE);
  if (input.kind === "document") return [input.request];
  if (input.kind === "text" && input.why !== "" && text.length <= MEBIBYTE)
    return `the page cannot read this text as the service does, as ${input.why}; use \`runner-policy impact\``;
  return text.length > MEBIBYTE
    ? "expected YAML of at most 1 MiB; send a larger one as JSON, as of `kubectl get … -o json`, or use `runner-policy impact`"
    : EXPECTED;
}

/** Reads sources: one impact result, or deployments; or the problem with the first that is neither. */
export function readSources(sources: readonly Source[]): Fleet {
  const deployments: Deployment[] = [];
  for (const { name, text } of sources) {
    const document = parsed(text) ?? linesAsImpact(text);
    if (isImpact(document)) {
      if (sources.length > 1)
        return { problem: { title: "Several results", detail: `${name} is an impact result: show it alone` } };
      const found = readImpact(document);
      if ("result" in found) return found;
      const title = "The impact result has faults";
      return { problem: { title, detail: "", errors: found.faults.map((fault) => ({ ...fault })) } };
    }
    const requests = requestsOf(text);
    if (typeof requests === "string")
      return { problem: { title: "This cannot be compared", detail: `${name}: ${requests}` } };
    deployments.push(...requests.map((request) => ({ source: name, request })));
  }
  return { deployments };
}

/** An answer of the service with the names of sources in the places of its items. */
export function withSources(result: FleetResult, deployments: readonly Deployment[]): FleetResult {
  const items = result.items.map((item) => {
    const at = /^\/deployments\/(\d+)/.exec(item.place?.pointer ?? "")?.[1];
    const source = at === undefined ? undefined : deployments[Number(at)]?.source;
    return source === undefined ? item : { ...item, place: { ...item.place, file: source } };
  });
  return { ...result, items };
}
