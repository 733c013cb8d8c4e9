/** The changes of a remedy, made in a request so that it can be decided again. */

import type { Change } from "../api";
import { shown } from "../remedy_text";
import { isObject, member, withMember, withoutMember } from "../member";
import type { DecisionRequest } from "./input";
import { stepsTo, valueAt, withValueAt } from "./places";

/** A change that is tried; of a manifest, for the engine at `path`. */
export type Tried = Change & { readonly path?: string };

const SHELL = /^(?:\/(?:usr\/)?bin\/)?(?:ba|da|z)?sh$/;
const STARTS = /\bvllm\s+serve\b|\bvllm\.entrypoints\.[\w.]*api_server\b/;

/** The request with a change, or `null` if the page cannot make it there. */
export function changed(request: DecisionRequest, change: Tried): DecisionRequest | null {
  if (change.field === "vllm_version") return { ...request, vllm_version: change.to };
  if ("manifest" in request) {
    const steps = stepsTo(request.manifest, change.path ?? "");
    const engine = steps === null ? null : withChange(valueAt(request.manifest, steps), change);
    return steps === null || engine === null
      ? null
      : { ...request, manifest: withValueAt(request.manifest, steps, engine) };
  }
  if (change.fact !== undefined && isObject(request.facts)) {
    return { ...request, facts: withFact(request.facts, change.fact.split("."), change.to) };
  }
  const deployment = request.deployment;
  if (!isObject(deployment)) return null;
  if (change.variable !== undefined) {
    const env = isObject(deployment.env) ? deployment.env : {};
    const found =
      change.to === null ? withoutMember(env, change.variable) : withMember(env, change.variable, shown(change.to));
    return { ...request, deployment: { ...deployment, env: found } };
  }
  if (change.argument === undefined) return null;
  const args = withArgument(deployment.args, change.argument, change.to);
  return args === null ? null : { ...request, deployment: { ...deployment, args } };
}

/** The request with several changes, or `null` if one of them cannot be made. */
export function withChanges(request: DecisionRequest, changes: readonly Tried[]): DecisionRequest | null {
  return changes.reduce<DecisionRequest | null>((found, change) => found && changed(found, change), request);
}

/** The engine of a manifest with a change: a container, or a text that starts it. */
function withChange(engine: unknown, change: Change): unknown {
  if (typeof engine === "string") {
    return change.argument !== undefined && canExtend(engine, change)
      ? withArgument(engine, change.argument, change.to)
      : null;
  }
  if (!isObject(engine)) return null;
  if (change.variable !== undefined) return withVariable(engine, change.variable, change.to);
  const flag = change.argument;
  if (flag === undefined) return null;
  const places = ["args", "command", "entrypoint"].filter((name) => Object.hasOwn(engine, name));
  const has = places.filter((name) => mentions(member(engine, name), baseOf(flag)));
  const place = has.length === 1 ? has[0] : has.length === 0 ? places[0] : undefined;
  if (place === undefined) return null;
  const found = inWords(member(engine, place), flag, change);
  return found === null ? null : withMember(engine, place, found);
}

/** The words with a flag changed; in those of a shell, in its script. */
function inWords(words: unknown, flag: string, change: Change): unknown {
  if (!Array.isArray(words)) {
    return typeof words === "string" && canExtend(words, change) ? withArgument(words, flag, change.to) : null;
  }
  const isScript = (word: unknown): boolean => typeof word === "string" && /\s/.test(word) && STARTS.test(word);
  const at = words.findIndex(isScript);
  if (at < 0) return words.some((word) => SHELL.test(String(word))) ? null : withArgument(words, flag, change.to);
  const script = String(words[at]);
  if (!canExtend(script, change)) return null;
  return words.map((word: unknown, n) => (n === at ? withArgument(script, flag, change.to) : word));
}

/** Whether a text is one command, or has the flag already: otherwise it is not known where the flag belongs. */
function canExtend(text: string, change: Change): boolean {
  const hasFlag = mentions(text, baseOf(change.argument ?? ""));
  return hasFlag || !/[;&|<>\n#]/.test(text.replace(/\\\n/g, " ").trim());
}

function mentions(words: unknown, flag: string): boolean {
  if (Array.isArray(words)) return words.some((word) => mentions(word, flag));
  return typeof words === "string" && new RegExp(`(?:^|\\s)${flag}(?=[=\\s.]|$)`).test(words);
}

function baseOf(flag: string): string {
  return flag.split(".")[0] ?? flag;
}

function withVariable(engine: Record<string, unknown>, name: string, value: unknown): Record<string, unknown> | null {
  const key = Object.hasOwn(engine, "environment") ? "environment" : "env";
  const env = member(engine, key) ?? [];
  if (isObject(env)) {
    return withMember(engine, key, value === null ? withoutMember(env, name) : withMember(env, name, shown(value)));
  }
  if (!Array.isArray(env)) return null;
  const isPairs = env.some((each) => typeof each === "string");
  const others = env.filter((each: unknown) =>
    isObject(each) ? each.name !== name : !(typeof each === "string" && each.startsWith(`${name}=`)),
  ) as unknown[];
  const added = isPairs ? `${name}=${shown(value)}` : { name, value: shown(value) };
  return withMember(engine, key, value === null ? others : [...others, added]);
}

function withFact(facts: Record<string, unknown>, path: string[], value: unknown): Record<string, unknown> {
  const [name = "", ...rest] = path;
  if (rest.length > 0) {
    const found = member(facts, name);
    return withMember(facts, name, withFact(isObject(found) ? found : {}, rest, value));
  }
  return value === null ? withoutMember(facts, name) : withMember(facts, name, value);
}

/** The JSON of an option with another value of one of its members; `null` if it is none. */
function withJson(text: string, path: string[], value: unknown): string | null {
  try {
    const found = JSON.parse(text) as unknown;
    return isObject(found) ? JSON.stringify(withFact(found, path, value)) : null;
  } catch {
    return null;
  }
}

function withArgument(args: unknown, name: string, value: unknown): unknown {
  const [flag = "", ...path] = name.split(".");
  if (Array.isArray(args)) return inList(args.map(String), flag, path, value);
  return typeof args === "string" ? inText(args, flag, path, value) : null;
}

function inList(words: readonly string[], flag: string, path: string[], value: unknown): string[] | null {
  const at = words.findLastIndex((word) => word === flag || word.startsWith(`${flag}=`));
  const word = words[at] ?? "";
  const next = words[at + 1];
  const takesNext = at >= 0 && word === flag && next !== undefined && !/^-(?![\d.])/.test(next);
  if (path.length > 0) {
    if (at < 0) return null;
    const json = withJson(takesNext ? next : word.slice(flag.length + 1), path, value);
    if (json === null) return null;
    const written = takesNext ? [flag, json] : [`${flag}=${json}`];
    return [...words.slice(0, at), ...written, ...words.slice(at + (takesNext ? 2 : 1))];
  }
  const added = value === null ? [] : value === true ? [flag] : [flag, shown(value)];
  if (at < 0) return [...words, ...added];
  return [...words.slice(0, at), ...added, ...words.slice(at + (takesNext ? 2 : 1))];
}

function quoted(word: string): string {
  return /^[\w./:=-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

function inText(args: string, flag: string, path: string[], value: unknown): string | null {
  const found = [...args.matchAll(new RegExp(`(?<=^|\\s)${flag}(?=[=\\s]|$)`, "g"))];
  const at = found.at(-1)?.index ?? -1;
  const written = /^(?:=|\s+(?!-[^\d.]))('[^']*'|"(?:[^"\\]|\\.)*"|(?:[^\s'"\\]|\\[^\n])+)/.exec(
    args.slice(at + flag.length),
  );
  if (path.length > 0) {
    const text = written?.[1];
    if (at < 0 || text === undefined) return null;
    const json = withJson(
      text.startsWith("'") ? text.slice(1, -1) : text.replace(/^"|"$/g, "").replace(/\\(.)/g, "$1"),
      path,
      value,
    );
    if (json === null) return null;
    return `${args.slice(0, at)}${flag} ${quoted(json)}${args.slice(at + flag.length + (written?.[0].length ?? 0))}`;
  }
  const added = value === null ? [] : value === true ? [flag] : [flag, shown(value)];
  const text = added.map(quoted).join(" ");
  if (at < 0) return `${args.trimEnd()} ${text}`;
  return `${args.slice(0, at)}${text}${args.slice(at + flag.length + (written?.[0].length ?? 0))}`;
}
