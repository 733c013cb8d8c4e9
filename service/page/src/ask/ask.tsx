/** The view Ask: a text, the engines in it, and the answer for one of them. Owns when the service is asked. */

import type { JSX, TargetedDragEvent, TargetedUIEvent } from "preact";
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { type Change, type Decision, type Engines, type Problem, post } from "../api";
import { decoded, encoded } from "../fragment";
import { ProblemView } from "../problem";
import { useAnswer } from "../use_answer";
import { AnswerView } from "./answer";
import { changeText } from "../remedy_text";
import { withChanges } from "./changes";
import { EngineList } from "./engines";
import { completed, type DecisionRequest, isObject, readInput } from "./input";
import { type Mark, marksOf } from "./marks";
import { ModelConfigs, neededModels } from "./model_configs";
import { knownReleases, Strip } from "./strip";

const WAIT = 300;
const EXAMPLE = `vllm serve Qwen/Qwen3-8B \\
  --kv-transfer-config '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}'`;
const EXAMPLE_CONFIG = {
  architectures: ["Qwen3ForCausalLM"],
  model_type: "qwen3",
  hidden_size: 4096,
  num_attention_heads: 32,
  num_key_value_heads: 8,
  num_hidden_layers: 36,
  vocab_size: 151936,
  max_position_embeddings: 40960,
};

interface State {
  readonly text: string;
  readonly release: string;
  readonly configs: Readonly<Record<string, unknown>>;
  readonly tried: readonly Change[];
}
const EMPTY: State = { text: "", release: "", configs: {}, tried: [] };

/** A state as a link has it; anything else is left out. */
function stateOf(value: unknown): State {
  if (!isObject(value)) return EMPTY;
  return {
    text: typeof value.text === "string" ? value.text : "",
    release: typeof value.release === "string" ? value.release : "",
    configs: isObject(value.configs) ? value.configs : {},
    tried: Array.isArray(value.tried) ? (value.tried.filter(isObject) as unknown as Change[]) : [],
  };
}

/** The part of a manifest's request that has the engine at a path, and the engine's path in it. */
function partOf(request: DecisionRequest, path: string): [DecisionRequest, string] {
  const found = /^(?:items)?\[(\d+)\]\.?/.exec(path);
  const documents = request.manifest;
  const one: unknown = found && Array.isArray(documents) ? documents[Number(found[1])] : undefined;
  return one === undefined || found === null
    ? [request, path]
    : [{ ...request, manifest: one }, path.slice(found[0].length)];
}

function Marked({ text, marks }: { readonly text: string; readonly marks: readonly Mark[] }) {
  const pieces: JSX.Element[] = [];
  let at = 0;
  for (const mark of marks) {
    pieces.push(<span key={at}>{text.slice(at, mark.start)}</span>);
    pieces.push(<mark key={mark.start}>{text.slice(mark.start, mark.end)}</mark>);
    at = mark.end;
  }
  return (
    <>
      {pieces}
      {text.slice(at)}
      {"\n"}
    </>
  );
}

function Editor(properties: {
  readonly text: string;
  readonly marks: readonly Mark[];
  readonly onText: (text: string) => void;
}) {
  const behind = useRef<HTMLPreElement>(null);
  const scrolled = (event: TargetedUIEvent<HTMLTextAreaElement>): void => {
    if (behind.current === null) return;
    behind.current.scrollTop = event.currentTarget.scrollTop;
    behind.current.scrollLeft = event.currentTarget.scrollLeft;
  };
  const dropped = (event: TargetedDragEvent<HTMLTextAreaElement>): void => {
    const file = event.dataTransfer?.files[0];
    if (file === undefined) return;
    event.preventDefault();
    file.text().then(properties.onText, () => undefined);
  };
  return (
    <div class="editor">
      <pre ref={behind} aria-hidden="true">
        {properties.marks.length > 0 && <Marked text={properties.text} marks={properties.marks} />}
      </pre>
      <textarea
        aria-label="A command, a deployment, facts or a manifest"
        placeholder={
          "vllm serve MODEL …\n\nor facts, a deployment, a Kubernetes manifest, a chart's values, a script\n\nA file can be dropped here."
        }
        spellcheck={false}
        value={properties.text}
        onScroll={scrolled}
        onDrop={dropped}
        onInput={(event) => {
          properties.onText(event.currentTarget.value);
        }}
      />
    </div>
  );
}

export function Ask() {
  const [state, setState] = useState<State>(EMPTY);
  const [selected, setSelected] = useState("");
  const [releases, setReleases] = useState<readonly string[]>([]);
  const [isRead, setRead] = useState(false);
  const change = useCallback((part: Partial<State>) => {
    setState((before) => ({ ...before, ...part }));
  }, []);

  useEffect(() => {
    const read = (): void => {
      decoded(location.hash.slice(1)).then(
        (found) => {
          if (location.hash.length > 1) setState(stateOf(found));
          setRead(true);
        },
        () => undefined,
      );
    };
    read();
    addEventListener("hashchange", read);
    knownReleases().then(setReleases, () => undefined);
    return () => {
      removeEventListener("hashchange", read);
    };
  }, []);
  useEffect(() => {
    if (!isRead) return undefined;
    const timer = setTimeout(() => {
      const kept = state.text === "" ? Promise.resolve("") : encoded(state);
      kept.then(
        (link) => {
          history.replaceState(null, "", link === "" ? location.pathname : `#${link}`);
        },
        () => undefined,
      );
    }, WAIT);
    return () => {
      clearTimeout(timer);
    };
  }, [state, isRead]);

  const input = useMemo(() => readInput(state.text), [state.text]);
  const request = useMemo(() => {
    if (input.kind !== "document") return null;
    const whole = completed(input.request, state.release, state.configs, !input.isManifest);
    return withChanges(whole, state.tried) ?? whole;
  }, [input, state.release, state.configs, state.tried]);
  const ask = useMemo(() => {
    if (input.kind === "empty") return null;
    return (signal: AbortSignal) => post<Decision | Engines>("v1/decisions", request ?? state.text, signal);
  }, [input, request, state.text]);
  const [answer, isBusy] = useAnswer(ask, WAIT);

  const value = answer !== null && "value" in answer ? answer.value : null;
  const engines = value !== null && "items" in value ? value : null;
  const single = value !== null && !("items" in value) ? value : null;
  const path = engines?.items.some((each) => each.path === selected) ? selected : (engines?.items[0]?.path ?? "");
  const engine = engines?.items.find((each) => each.path === path);
  const [part, partPath] = useMemo(
    () => (request === null || path === "" ? [request, path] : partOf(request, path)),
    [request, path],
  );
  const askEngine = useMemo(() => {
    if (engine?.decision === undefined || part === null) return null;
    return (signal: AbortSignal) => post<Engines>("v1/decisions", { ...part, explain: true }, signal);
  }, [engine?.decision, part]);
  const [explained] = useAnswer(askEngine, 0);
  const full =
    explained !== null && "value" in explained
      ? explained.value.items.find((each) => each.path === partPath)?.decision
      : undefined;
  const decision = single ?? full ?? engine?.decision ?? null;
  const problem: Problem | null = answer !== null && "problem" in answer ? answer.problem : (engine?.problem ?? null);
  const all =
    engines?.items.flatMap((each) => (each.problem ? [each.problem] : [])) ?? (problem === null ? [] : [problem]);
  const needed = neededModels(all).slice(0, 20);
  const marks = useMemo(() => (decision === null ? [] : marksOf(state.text, decision)), [state.text, decision]);
  const canTry = (changes: readonly Change[]): boolean => part !== null && withChanges(part, changes) !== null;

  return (
    <main class="ask">
      <section class="question">
        <h1>Which runner does it get?</h1>
        <Editor
          text={state.text}
          marks={marks}
          onText={(text) => {
            change({ text, tried: [] });
          }}
        />
        <div class="row">
          <span class="field">
            <label for="release">vLLM</label>{" "}
            <select
              id="release"
              value={state.release}
              onChange={(event) => {
                change({ release: event.currentTarget.value });
              }}
            >
              <option value="">as it says, or the default</option>
              {[...releases].reverse().map((release) => (
                <option key={release} value={release}>
                  {release}
                </option>
              ))}
            </select>
          </span>
          {state.text === "" && (
            <button
              type="button"
              onClick={() => {
                change({ text: EXAMPLE, release: "0.23.0", configs: { "Qwen/Qwen3-8B": EXAMPLE_CONFIG } });
              }}
            >
              Show an example
            </button>
          )}
          {state.text !== "" && (
            <button
              type="button"
              onClick={() => {
                setState(EMPTY);
              }}
            >
              Clear
            </button>
          )}
          <span role="status" class="from">
            {isBusy ? "asking…" : ""}
          </span>
        </div>
        {Object.keys(state.configs).length > 0 && (
          <p class="chips">
            {Object.keys(state.configs).map((model) => (
              <button
                key={model}
                type="button"
                class="chip"
                onClick={() => {
                  const kept = Object.entries(state.configs).filter(([name]) => name !== model);
                  change({ configs: Object.fromEntries(kept) });
                }}
                aria-label={`Remove the config.json of ${model}`}
              >
                config.json of {model} ×
              </button>
            ))}
          </p>
        )}
        {state.tried.length > 0 && (
          <p class="chips">
            {state.tried.map((each, n) => (
              <button
                key={n}
                type="button"
                class="chip tried"
                onClick={() => {
                  change({ tried: state.tried.filter((_, other) => other !== n) });
                }}
                aria-label={`Undo: ${changeText(each)}`}
              >
                {changeText(each)} ×
              </button>
            ))}
          </p>
        )}
        {engines !== null && engines.items.length !== 1 && (
          <EngineList engines={engines} selected={path} onSelect={setSelected} />
        )}
      </section>
      <section class={isBusy ? "result busy" : "result"}>
        {needed.length > 0 && (
          <ModelConfigs
            models={needed}
            onConfig={(model, config) => {
              change({ configs: { ...state.configs, [model]: config } });
            }}
          />
        )}
        {problem !== null && needed.length === 0 && <ProblemView problem={problem} />}
        {decision !== null && (
          <AnswerView
            decision={decision}
            path={path}
            canTry={canTry}
            onTry={(changes) => {
              const release = changes.find((each) => each.field === "vllm_version")?.to;
              if (typeof release === "string") change({ release });
              else change({ tried: [...state.tried, ...changes] });
            }}
          >
            {part !== null && (
              <Strip
                request={part}
                path={partPath}
                release={decision.release.decided_as}
                onRelease={(release) => {
                  change({ release });
                }}
              />
            )}
          </AnswerView>
        )}
        {state.text === "" && (
          <section class="card">
            <h2>What it answers</h2>
            <p>
              vLLM runs a model with Model Runner V1 or V2. This page says which one a deployment gets, whether vLLM
              starts, why, and what each release changes. What you paste is sent to this service only.
            </p>
          </section>
        )}
      </section>
    </main>
  );
}
