/** The changes of a remedy, made in a request so that it can be decided again. */

import type { Change } from "../api";
import { isObject, member, withMember, withoutMember } from "../member";
import { changeText, shown } from "../remedy_text";
import { type Changed, withEdits, withPath, wordEdits } from "./argument_edits";
import type { DecisionRequest } from "./input";
import { type Steps, stepsTo, valueAt, withValueAt } from "./places";
import { scriptWithArgument, scriptWithVariable, startsVllm } from "./script_edits";

/** A change that is tried; of a manifest, for the engine at `path`. */
export type Tried = Change & { readonly path?: string };

const SHELL = /^(?:\/(?:usr\/)?bin\/)?(?:ba|da|z)?sh$/;
const LISTS = ["args", "command", "entrypoint"] as const;

/** The request with a change. */
export function changed(request: DecisionRequest, change: Tried): Changed<DecisionRequest> {
  if (change.field === "vllm_version") return { value: { ...request, vllm_version: change.to } };
  if ("manifest" in request) {
    const steps = engineSteps(request.manifest, change.path ?? "");
    if (steps === null) return { why: "the page does not find the engine in what was written" };
    const engine = withChange(valueAt(request.manifest, steps), steps, change);
    return "why" in engine
      ? engine
      : { value: { ...request, manifest: withValueAt(request.manifest, steps, engine.value) } };
  }
  if (isObject(request.facts)) {
    if (change.fact === undefined) return { why: "facts are given, and this is none" };
    return { value: { ...request, facts: withPath(request.facts, change.fact.split("."), change.to) } };
  }
  if (!isObject(request.deployment)) return { why: "the page does not find the deployment in what was written" };
  const deployment = inDeployment(request.deployment, change);
  return "why" in deployment ? deployment : { value: { ...request, deployment: deployment.value } };
}

/** The request with those of the changes that can be made, and why the others cannot. */
export function withChanges(
  request: DecisionRequest,
  changes: readonly Tried[],
): [request: DecisionRequest, refused: ReadonlyMap<Tried, string>] {
  const refused = new Map<Tried, string>();
  let found = request;
  for (const change of changes) {
    const made = changed(found, change);
    if ("why" in made) refused.set(change, made.why);
    else found = made.value;
  }
  return [found, refused];
}

/** The steps to an engine, or to the text that starts it. */
function engineSteps(manifest: unknown, path: string): Steps | null {
  return stepsTo(manifest, path) ?? stepsTo(manifest, path.replace(/\[\d+\]$/, ""));
}

function inDeployment(deployment: Record<string, unknown>, change: Change): Changed<Record<string, unknown>> {
  const { args } = deployment;
  const set = (name: string, value: unknown): Changed<Record<string, unknown>> => ({
    value: withMember(deployment, name, value),
  });
  if (change.variable !== undefined) {
    const script = typeof args === "string" ? scriptWithVariable(args, change.variable, change.to) : null;
    if (script !== null && "value" in script) return set("args", script.value);
    const env = isObject(deployment.env) ? deployment.env : {};
    if (change.to !== null) return set("env", withMember(env, change.variable, shown(change.to)));
    return Object.hasOwn(env, change.variable) ? set("env", withoutMember(env, change.variable)) : notWritten(change);
  }
  if (typeof args !== "string" && !Array.isArray(args)) return { why: "the deployment has no arguments" };
  const found = inWords(args, change, indexIn(change.at, "args"));
  return "why" in found ? found : set("args", found.value);
}

/** The engine of a manifest with a change: a container, or a text that starts it. */
function withChange(engine: unknown, steps: Steps, change: Change): Changed<unknown> {
  if (typeof engine === "string") {
    if (change.variable !== undefined) return scriptWithVariable(engine, change.variable, change.to);
    return scriptWithArgument(engine, change);
  }
  if (!isObject(engine)) return { why: "the page does not find the engine in what was written" };
  if (change.variable !== undefined) return withVariable(engine, steps, change);
  if (change.at !== undefined) return atPlace(engine, change, change.at);
  const places = LISTS.filter((name) => (member(engine, name) ?? null) !== null);
  const shell = places.find((name) => hasShell(member(engine, name)));
  const place = shell === undefined ? places[0] : places.find((name) => scriptIn(member(engine, name)) >= 0);
  if (place === undefined) return { why: "the page does not find where its arguments are written" };
  const found = inWords(member(engine, place), change, null);
  return "why" in found ? found : { value: withMember(engine, place, found.value) };
}

/** The engine with a change of an argument that the service found at a place in it. */
function atPlace(engine: Record<string, unknown>, change: Change, at: string): Changed<unknown> {
  const steps = stepsTo(engine, at);
  const last = steps?.at(-1);
  if (steps === null || last === undefined) return { why: `\`${at}\` is not in what was written` };
  const isItem = typeof last === "number";
  const place = isItem ? steps.slice(0, -1) : steps;
  const found = inWords(valueAt(engine, place), change, isItem ? last : null);
  return "why" in found ? found : { value: withValueAt(engine, place, found.value) };
}

/** The arguments with a flag changed; in those of a shell, in its script. */
function inWords(args: unknown, change: Change, at: number | null): Changed<unknown> {
  if (typeof args === "string") return scriptWithArgument(args, change);
  if (!Array.isArray(args)) return { why: "the page does not find where its arguments are written" };
  const words = args.map(String);
  const place = scriptIn(words);
  if (place >= 0) {
    const script = scriptWithArgument(words[place] ?? "", change);
    return "why" in script ? script : { value: words.with(place, script.value) };
  }
  if (hasShell(words)) return { why: "a shell runs what the page does not find" };
  const edits = wordEdits(words, change, at);
  return edits === null ? notWritten(change) : { value: withEdits(words, edits) };
}

/** The place of a script that starts vLLM among words; -1 if there is none. */
function scriptIn(words: unknown): number {
  return Array.isArray(words)
    ? words.findIndex((word) => typeof word === "string" && /\s/.test(word) && startsVllm(word))
    : -1;
}

function hasShell(words: unknown): boolean {
  return Array.isArray(words) && words.some((word) => typeof word === "string" && SHELL.test(word));
}

/** The index of a place such as `args[3]` in a list. */
function indexIn(at: string | undefined, name: string): number | null {
  const found = at?.startsWith(`${name}[`) === true ? /^\[(\d+)\]$/.exec(at.slice(name.length))?.[1] : undefined;
  return found === undefined ? null : Number(found);
}

function withVariable(engine: Record<string, unknown>, steps: Steps, change: Change): Changed<unknown> {
  const isCompose = steps.at(-2) === "services";
  const key = isCompose ? "environment" : "env";
  const env = member(engine, key) ?? null;
  const { variable = "", to } = change;
  const set = (value: unknown): Changed<unknown> => ({ value: withMember(engine, key, value) });
  if (isObject(env)) {
    if (to !== null) return set(withMember(env, variable, shown(to)));
    return Object.hasOwn(env, variable) ? set(withoutMember(env, variable)) : notWritten(change);
  }
  if (env !== null && !Array.isArray(env)) return { why: `\`${key}\` is neither a list nor an object` };
  const list = (env ?? []) as readonly unknown[];
  const isIt = (each: unknown): boolean =>
    isObject(each) ? each.name === variable : typeof each === "string" && each.split("=", 1)[0] === variable;
  const others = list.filter((each) => !isIt(each));
  if (to === null) return others.length < list.length ? set(others) : notWritten(change);
  const isContainer = isCompose || /ontainers$/.test(String(steps.at(-2)));
  if (env === null && !isContainer) return { why: "the page does not know where such an object has its variables" };
  const isPairs = isCompose || list.some((each) => typeof each === "string");
  return set([...others, isPairs ? `${variable}=${shown(to)}` : { name: variable, value: shown(to) }]);
}

function notWritten(change: Change): { readonly why: string } {
  if (change.argument !== undefined) return { why: `${change.argument} is not a word of its own there` };
  return { why: `${change.variable ?? changeText(change)} is not set there` };
}
