/** What was written: a command, facts, a deployment, a manifest or a whole request. Owns how it becomes a request. */

import { isText } from "../exact_number";
import { isObject } from "../member";
import { readJson } from "./json_text";
import { OnlyService, readYaml } from "./yaml";

/** A request to decide, as the service takes it. */
export type DecisionRequest = Record<string, unknown>;
export type Input =
  | { readonly kind: "empty" }
  | { readonly kind: "document"; readonly request: DecisionRequest; readonly isManifest: boolean }
  | OnlyText;
/** What the service reads itself, and why the page does not; empty if it is nothing that the page knows. */
export interface OnlyText {
  readonly kind: "text";
  readonly text: string;
  readonly why: string;
}

/** The longest command or script, in characters. */
const MAX_COMMAND = 1 << 20;
/** The longest YAML that is read at all, and that is read in an instant. */
export const MAX_YAML = 1 << 22;
const MAX_AT_ONCE = 1 << 16;
const COMMENTS = /^(?:\s*(?:#[^\n]*)?\n)*\s*(?:\$ )?/;
const PROGRAM =
  /^(?:[A-Z_][A-Z0-9_]*=\S*\s+)*(?:vllm|docker|podman|nerdctl|python[0-9.]*|uvx?|bash|sh|exec|env|export|set|cd|sudo|nohup|--?\w[\w-]*)(?:\s|$)/;
const SCRIPT = /^#!|\n|^(?:sudo\s+)?(?:docker|podman|nerdctl)\s/;
/** How YAML, JSON, a template or markup begins, and no command: a key, an item, a bracket or a mark. */
const DOCUMENT = /^(?:(?:[\w./-]+|"[^"\n]*"|'[^'\n]*')[ \t]*:(?:\s|$)|[-?](?:\s|$)|---|%YAML|[[{<&*!|>])/;
/** What runs the command that follows it on a line. */
const RUNS = [
  "exec|command|eval|time|if|then|else|do|while|until|env|sudo|gosu|su-exec|tini|dumb-init|nohup|setsid|nice|ionice",
  "chrt|numactl|taskset|prlimit|timeout|stdbuf|catchsegv|uvx?|pipx|poetry|pixi|conda|micromamba|srun|mpirun|torchrun",
  "nsys|ssh|(?:ba|da|z)?sh|python[0-9.]*",
].join("|");
const FOLDER = String.raw`(?:(?:"[^\s"]*")?[^\s;&|"'(]*/)?`;
/** A command that starts vLLM, after variables and what runs it. It never goes on into another one: that is linear. */
const START = new RegExp(
  String.raw`(?:^|[;&|])[ \t(]*(?:(?:\w+=|${FOLDER}(?:${RUNS})(?=[ \t]+[^ \t=:]))[^\n;&|]*?[ \t"'(])?${FOLDER}` +
    String.raw`(?:vllm[ \t]+serve\s|vllm\.entrypoints\.(?:\w+\.){0,4}api_server\b)`,
  "m",
);
const UNIT = /^\[(?:Unit|Service|Install)\]/m;
const REQUEST_FIELDS = ["facts", "deployment", "manifest"];
/** The fields of a request that one of several documents may have beside those of a manifest. */
export const FIELDS_BESIDE_MANIFEST = new Set([
  "model_configs",
  "environment",
  "vllm_version",
  "override_images",
  "layers",
  "request_id",
  "explain",
  "beyond_verified",
]);

/** Whether a text is read in an instant: JSON of any length, and what is short. */
export function isReadAtOnce(text: string): boolean {
  return text.length <= MAX_AT_ONCE || text.length > MAX_YAML || /^\s*[[{]/.test(text);
}

/** Reads a text. What is neither a command nor YAML is left to the service, which says what is wrong with it. */
export function readInput(text: string, maxYaml = MAX_AT_ONCE): Input {
  if (text.trim() === "") return { kind: "empty" };
  if (text.length <= MAX_COMMAND) {
    const command = text.replace(/\r\n/g, "\n").replace(COMMENTS, "");
    if (PROGRAM.test(command) || text.startsWith("#!")) return readCommand(text, command);
    if (UNIT.test(text)) return manifest({ unit: text });
    const found = readDocument(text, maxYaml);
    const isCommand = !DOCUMENT.test(command) && isNoDocument(found) && START.test(command);
    return isCommand ? readCommand(text, command) : found;
  }
  return readDocument(text, maxYaml);
}

/** A text that is one command, without the comments before it, or a script. */
function readCommand(text: string, command: string): Input {
  const isScript = SCRIPT.test(text.startsWith("#!") ? text : command.replace(/\\\n/g, " ").trim());
  return isScript ? manifest({ script: text }) : document({ deployment: { args: command } });
}

/** Whether a text is no YAML, neither a map nor a list, or a map only because a command in it has a colon. */
function isNoDocument(found: Input): boolean {
  if (found.kind === "text") return found.why === "";
  if (found.kind === "empty" || !isObject(found.request.manifest)) return false;
  return Object.keys(found.request.manifest).some((key) => START.test(key));
}

/** JSON of any length, and YAML up to one; what the page cannot read as the service does is left to the service. */
function readDocument(text: string, maxYaml: number): Input {
  const json = /^\s*[[{]/.test(text) ? readJson(text) : undefined;
  if (json !== undefined) return readValues([json], text);
  if (text.length > maxYaml) return { kind: "text", text, why: "it is too long" };
  try {
    return readValues(readYaml(text), text);
  } catch (error) {
    return { kind: "text", text, why: error instanceof OnlyService ? error.message : "" };
  }
}

function readValues(values: readonly unknown[], text: string): Input {
  const [first] = values;
  if (values.length > 1) return joined(values);
  if (Array.isArray(first) && first.length > 0 && first.every(isText)) {
    return document({ deployment: { args: first } });
  }
  if (typeof first !== "object" || first === null) return { kind: "text", text, why: "" };
  if (Array.isArray(first)) return manifest(first);
  if (REQUEST_FIELDS.some((field) => field in first)) return document(first as DecisionRequest);
  if (isDeployment(first)) return document({ deployment: first });
  if (isFacts(first)) return document({ facts: first });
  return manifest(first);
}

/** Several documents as a manifest; one of them may have the other fields of the request, as the service joins them. */
function joined(values: readonly unknown[]): Input {
  const [fields, ...more] = values.filter(hasOnlyFields);
  if (fields === undefined || more.length > 0) return manifest(values);
  const others = values.filter((each) => each !== fields);
  return document({ ...fields, manifest: others.length === 1 ? others[0] : others });
}

/** Whether a document has fields of a request, and no input but a `manifest` of null. */
function hasOnlyFields(value: unknown): value is Record<string, unknown> {
  if (!isObject(value) || Object.keys(value).length === 0) return false;
  return Object.entries(value).every(
    ([name, each]) => FIELDS_BESIDE_MANIFEST.has(name) || (name === "manifest" && each === null),
  );
}

function isDeployment(value: object): boolean {
  return "args" in value && !("kind" in value) && !("apiVersion" in value) && !("image" in value);
}

function isFacts(value: object): boolean {
  const names = Object.keys(value);
  return names.length > 0 && names.every((name) => /^(?:platform|plugins|omni|[a-z_]+_config)$/.test(name));
}

function document(request: DecisionRequest): Input {
  return { kind: "document", request, isManifest: "manifest" in request };
}

function manifest(value: unknown): Input {
  return { kind: "document", request: { manifest: value }, isManifest: true };
}

/** The request with a release, with the configurations of models that were added, and with an explanation if asked. */
export function completed(
  request: DecisionRequest,
  release: string,
  configs: Readonly<Record<string, unknown>>,
  explain: boolean,
): DecisionRequest {
  const found: DecisionRequest = { ...request, explain };
  if (release !== "") Object.assign(found, releaseOf(found, release));
  if (Object.keys(configs).length === 0 || "facts" in found) return found;
  const holder = isObject(found.deployment) ? { ...found.deployment } : found;
  holder.model_configs = { ...(isObject(holder.model_configs) ? holder.model_configs : {}), ...configs };
  if (holder !== found) found.deployment = holder;
  return found;
}

/** The fields that decide a request for a release, whatever the images of a manifest show. */
export function releaseOf(request: DecisionRequest, release: string): DecisionRequest {
  return { vllm_version: release, ...("manifest" in request ? { override_images: true } : {}) };
}
