/** What was asked, as a link keeps it. */

import { isObject } from "../member";
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

/** A state as a link has it; anything else is left out. */
export function stateOf(value: unknown): State {
  if (!isObject(value)) return EMPTY;
  const text = (found: unknown): string => (typeof found === "string" ? found : "");
  return {
    text: text(value.text),
    release: text(value.release),
    configs: isObject(value.configs) ? value.configs : {},
    tried: Array.isArray(value.tried) ? (value.tried.filter(isObject) as unknown as Tried[]) : [],
    engine: text(value.engine),
    step: text(value.step),
  };
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
