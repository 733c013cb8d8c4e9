/** What was asked, as a link keeps it. Owns what of a link is taken over: anyone can write one. */

import { isObject, member } from "../member";
import type { Tried } from "./changes";

export interface State {
  readonly text: string;
  readonly release: string;
  readonly configs: Readonly<Record<string, unknown>>;
  readonly tried: readonly Tried[];
  /** The path of the engine that is shown, and the release whose step is; empty if none was chosen. */
  readonly engine: string;
  readonly step: string;
}
export const EMPTY: State = { text: "", release: "", configs: {}, tried: [], engine: "", step: "" };

const MAX_RELEASE = 64;
const MAX_PATH = 4000;
const MAX_CONFIGS = 1000;
const MAX_TRIED = 32;
const MAX_NAME = 200;
/** What a change may be of, and the form of its name. */
const NAMES = [
  ["argument", /^--[a-z][\w-]*(?:\.[\w-]+)*$/i],
  ["variable", /^[a-z_]\w*$/i],
  ["fact", /^[a-z_]\w*(?:\.\w+)*$/i],
  ["field", /^vllm_version$/],
] as const;

/** A state as a link has it; anything else is left out. */
export function stateOf(value: unknown): State {
  if (!isObject(value)) return EMPTY;
  return {
    text: textIn(value, "text", Infinity),
    release: textIn(value, "release", MAX_RELEASE),
    configs: isObject(value.configs) ? configsOf(value.configs) : {},
    tried: Array.isArray(value.tried) ? value.tried.slice(0, MAX_TRIED).flatMap(triedOf) : [],
    engine: textIn(value, "engine", MAX_PATH),
    step: textIn(value, "step", MAX_RELEASE),
  };
}

function textIn(object: Readonly<Record<string, unknown>>, name: string, longest: number): string {
  const found = member(object, name);
  return typeof found === "string" && found.length <= longest ? found : "";
}

function configsOf(found: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  return Object.fromEntries(
    Object.entries(found)
      .slice(0, MAX_CONFIGS)
      .filter(([name, config]) => name.length <= MAX_PATH && isObject(config)),
  );
}

/** The change that a link has tried; an empty list for what is none. */
function triedOf(value: unknown): Tried[] {
  if (!isObject(value) || !isScalar(value.to)) return [];
  const named = NAMES.filter(([kind]) => Object.hasOwn(value, kind));
  const [only] = named;
  if (only === undefined || named.length > 1) return [];
  const [kind, form] = only;
  const name = textIn(value, kind, MAX_NAME);
  if (!form.test(name)) return [];
  const path = textIn(value, "path", MAX_PATH);
  const at = textIn(value, "at", MAX_PATH);
  return [
    {
      [kind]: name,
      from: isScalar(value.from) ? value.from : null,
      to: value.to,
      ...(path === "" ? {} : { path }),
      ...(at === "" ? {} : { at }),
    },
  ];
}

function isScalar(value: unknown): value is string | number | boolean | null {
  return value === null || ["string", "number", "boolean"].includes(typeof value);
}

/** What a link keeps of it: what is not empty. */
export function keptOf(state: State): object {
  const { text, release, configs, tried, engine, step } = state;
  return {
    text,
    ...(release === "" ? {} : { release }),
    ...(Object.keys(configs).length === 0 ? {} : { configs }),
    ...(tried.length === 0 ? {} : { tried }),
    ...(engine === "" ? {} : { engine }),
    ...(step === "" ? {} : { step }),
  };
}
