/** What was written: a command, facts, a deployment, a manifest or a whole request. Owns how it becomes a request. */

import { parseAllDocuments } from "yaml";
import { isObject } from "../member";

/** A request to decide, as the service takes it. */
export type DecisionRequest = Record<string, unknown>;
export type Input =
  | { readonly kind: "empty" }
  | { readonly kind: "document"; readonly request: DecisionRequest; readonly isManifest: boolean }
  | { readonly kind: "text"; readonly text: string };

/** The longest command or script, in characters. */
const MAX_COMMAND = 1 << 20;
/** The longest YAML that is read at all, and that is read in an instant. */
export const MAX_YAML = 1 << 22;
const MAX_AT_ONCE = 1 << 16;
const COMMENTS = /^(?:\s*(?:#[^\n]*)?\n)*\s*(?:\$ )?/;
const PROGRAM =
  /^(?:[A-Z_][A-Z0-9_]*=\S*\s+)*(?:vllm|docker|podman|nerdctl|python[0-9.]*|uvx?|bash|sh|exec|env|export|set|cd|sudo|nohup|--?\w[\w-]*)(?:\s|$)/;
const SCRIPT = /^#!|\n|^(?:sudo\s+)?(?:docker|podman|nerdctl)\s/;
const UNIT = /^\[(?:Unit|Service|Install)\]/m;
const REQUEST_FIELDS = ["facts", "deployment", "manifest"];

/** Whether a text is read in an instant: JSON of any length, and what is short. */
export function isReadAtOnce(text: string): boolean {
  return text.length <= MAX_AT_ONCE || text.length > MAX_YAML || /^\s*[[{]/.test(text);
}

/** Reads a text. What is neither a command nor YAML is left to the service, which says what is wrong with it. */
export function readInput(text: string, maxYaml = MAX_AT_ONCE): Input {
  if (text.trim() === "") return { kind: "empty" };
  if (text.length <= MAX_COMMAND) {
    const command = text.replace(/\r\n/g, "\n").replace(COMMENTS, "");
    if (PROGRAM.test(command) || text.startsWith("#!")) {
      const isScript = SCRIPT.test(text.startsWith("#!") ? text : command.replace(/\\\n/g, " ").trim());
      return isScript ? manifest({ script: text }) : document({ deployment: { args: command } });
    }
    if (UNIT.test(text)) return manifest({ unit: text });
  }
  return text.length <= maxYaml ? readYaml(text) : readLarge(text);
}

/** A large text: JSON is read fast, and YAML is left to the service. */
function readLarge(text: string): Input {
  if (/^\s*[[{]/.test(text)) {
    try {
      const value = JSON.parse(text) as unknown;
      return readValues([value], text);
    } catch {
      // the service says what is wrong with it
    }
  }
  return { kind: "text", text };
}

function readYaml(text: string): Input {
  // of duplicate keys the last one counts, as in the service
  const documents = parseAllDocuments(text, { version: "1.1", logLevel: "silent", uniqueKeys: false });
  if (!Array.isArray(documents) || documents.some((each) => each.errors.length > 0)) return { kind: "text", text };
  let values: unknown[];
  try {
    values = documents.map((each) => each.toJS({ maxAliasCount: 1000 }) as unknown).filter((each) => each !== null);
  } catch {
    return { kind: "text", text };
  }
  return readValues(values, text);
}

function readValues(values: readonly unknown[], text: string): Input {
  const [first] = values;
  if (values.length > 1) return manifest(values);
  if (Array.isArray(first) && first.length > 0 && first.every((word) => typeof word === "string")) {
    return document({ deployment: { args: first } });
  }
  if (typeof first !== "object" || first === null) return { kind: "text", text };
  if (Array.isArray(first)) return manifest(first);
  if (REQUEST_FIELDS.some((field) => field in first)) return document(first as DecisionRequest);
  if (isDeployment(first)) return document({ deployment: first });
  if (isFacts(first)) return document({ facts: first });
  return manifest(first);
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
