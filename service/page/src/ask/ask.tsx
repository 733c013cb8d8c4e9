/** The view Ask: a text, the engines in it, and the answer for one of them. Owns when the service is asked. */

import type { TargetedDragEvent } from "preact";
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { type Answer, type Change, type Engines, type Problem, post } from "../api";
import { decoded, encoded } from "../fragment";
import { withMember, withoutMember } from "../member";
import { ProblemView } from "../problem";
import { Prose } from "../prose";
import { useTokenChanges } from "../token";
import { useAnswer, useSettled } from "../use_answer";
import { AnswerView } from "./answer";
import { changeText } from "../remedy_text";
import { type Tried, withChanges } from "./changes";
import { decide } from "./decide";
import { Editor } from "./editor";
import { BesideEngine, EngineList } from "./engines";
import { filesOf, filesOfDrop, type LooseConfig, matched, type SourceFile } from "./files";
import { completed } from "./input";
import { marksOf, moved } from "./marks";
import { ModelConfigs, neededModels } from "./model_configs";
import { type Part, partOf } from "./part";
import { readBeside } from "./reader";
import { spanOf } from "./places";
import { EMPTY, keptOf, type State, stateOf } from "./state";
import { knownReleases, Strip } from "./strip";
import { useInput } from "./use_input";

const WAIT = 300;
const MAX_CONFIGS_ASKED = 20;
const NO_PATHS: readonly string[] = [];
const NONE_REFUSED: ReadonlyMap<Tried, string> = new Map();
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

/** Keeps the state in the address, and takes it from there at the start and when the user goes back or forth. */
function useLinkedState(): [State, (change: (before: State) => State) => void] {
  const [state, setState] = useState<State>(EMPTY);
  const [isRead, setRead] = useState(false);
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
    return () => {
      removeEventListener("hashchange", read);
    };
  }, []);
  useEffect(() => {
    if (!isRead) return undefined;
    let isCurrent = true;
    const timer = setTimeout(() => {
      const kept = state.text === "" ? Promise.resolve("") : encoded(keptOf(state));
      kept.then(
        (link) => {
          if (isCurrent) history.replaceState(null, "", link === "" ? location.pathname : `#${link}`);
        },
        () => undefined,
      );
    }, WAIT);
    return () => {
      isCurrent = false;
      clearTimeout(timer);
    };
  }, [state, isRead]);
  return [state, setState];
}

/** The answer about a part of a manifest, with that part: the answer about another one is not its. */
interface PartAnswer {
  readonly part: Part;
  readonly engines: Engines;
}

async function explained(part: Part, signal: AbortSignal): Promise<Answer<PartAnswer>> {
  const answer = await post<Engines>("v1/decisions", { ...part.request, explain: true }, signal);
  return "value" in answer ? { value: { part, engines: answer.value } } : answer;
}

/** Why the release and the configurations that were given beside a text do not apply to it. */
function TextAlone({ why }: { readonly why: string }) {
  return (
    <p role="status" class="from">
      The page cannot read this text as the service does{why !== "" && <Prose text={`, as ${why}`} />}. So the service
      answers for the text alone: what is chosen or given beside it does not apply. Name <code>vllm_version</code> and{" "}
      <code>model_configs</code> in the text; of a manifest, in a YAML document of its own.
    </p>
  );
}

export function Ask() {
  const [state, setState] = useLinkedState();
  /** What was there before all of it was replaced, so that nothing is lost. */
  const [before, setBefore] = useState<State | null>(null);
  const [releases, setReleases] = useState<readonly string[]>([]);
  const [loose, setLoose] = useState<readonly LooseConfig[]>([]);
  const [notes, setNotes] = useState<readonly string[]>([]);
  const [isOver, setOver] = useState(false);
  const tokens = useTokenChanges();
  const change = useCallback(
    (part: Partial<State>) => {
      setState((old) => ({ ...old, ...part }));
    },
    [setState],
  );
  const latest = useRef(state);
  latest.current = state;
  const replace = (found: State): void => {
    setBefore(latest.current.text === "" ? null : latest.current);
    setState(() => found);
  };
  useEffect(() => {
    knownReleases().then(setReleases, () => undefined);
  }, [tokens]);

  // A text of some length is read once it is left alone for a moment.
  const asked = useSettled(state, WAIT, state.text === "");
  const input = useInput(asked.text);
  const [request, refused] = useMemo(() => {
    if (input?.kind !== "document") return [null, NONE_REFUSED] as const;
    return withChanges(completed(input.request, asked.release, asked.configs, !input.isManifest), asked.tried);
  }, [input, asked.release, asked.configs, asked.tried]);
  const ask = useMemo(() => {
    if (input === null || input.kind === "empty") return null;
    const body = request ?? asked.text;
    return (signal: AbortSignal) => decide(body, signal);
  }, [input, request, asked.text]);
  const [answer, isAsking] = useAnswer(ask, 0);
  const isAsked = (["text", "release", "configs", "tried"] as const).every((name) => asked[name] === state[name]);
  const isBusy = isAsking || input === null || !isAsked;

  const value = answer !== null && "value" in answer ? answer.value : null;
  const engines = value !== null && "items" in value ? value : null;
  const single = value !== null && !("items" in value) ? value : null;
  const engine = engines?.items.find((each) => each.path === state.engine) ?? engines?.items[0];
  const path = engine?.path ?? "";
  const paths = useMemo(() => engines?.items.map((each) => each.path) ?? NO_PATHS, [engines]);
  const isAnswered = value !== null;
  const part = useMemo(
    () => (isAnswered && request !== null ? partOf(request, path, paths) : null),
    [isAnswered, request, path, paths],
  );
  const isDecided = engine?.decision !== undefined;
  const askEngine = useMemo(
    () => (part === null || !isDecided ? null : (signal: AbortSignal) => explained(part, signal)),
    [isDecided, part],
  );
  const [whole] = useAnswer(askEngine, 0);
  const full =
    whole !== null && "value" in whole && whole.value.part === part
      ? whole.value.engines.items.find((each) => each.path === part.path)?.decision
      : undefined;
  const decision = single ?? full ?? engine?.decision ?? null;
  const problem: Problem | null = answer !== null && "problem" in answer ? answer.problem : (engine?.problem ?? null);
  const onlyText = input?.kind === "text" ? input : null;
  const needed = useMemo(() => {
    if (onlyText !== null) return []; // they cannot be sent with the text
    const all = engines?.items.flatMap((each) => (each.problem ? [each.problem] : []));
    return neededModels(all ?? (problem === null ? [] : [problem])).slice(0, MAX_CONFIGS_ASKED);
  }, [engines, problem, onlyText]);
  useEffect(() => {
    const found = matched(loose, needed);
    if (found.size === 0) return;
    const used = new Set(found.values());
    const configs = Object.fromEntries([...found].map(([model, { config }]) => [model, config]));
    setState((old) => ({ ...old, configs: { ...old.configs, ...configs } }));
    setLoose((old) => old.filter((each) => !used.has(each)));
  }, [loose, needed, setState]);

  const given = Object.keys(state.configs);
  const span = useMemo(() => spanOf(asked.text, path), [asked.text, path]);
  const marks = useMemo(
    () => (decision === null ? [] : marksOf(asked.text, span, decision)),
    [asked.text, span, decision],
  );
  const shownMarks = useMemo(() => moved(marks, asked.text, state.text), [marks, asked.text, state.text]);
  const tried = (changes: readonly Change[]): Tried[] =>
    changes.map((each) => (path === "" || each.field !== undefined ? each : { ...each, path }));
  const whyNot = (changes: readonly Change[]): string => {
    if (request === null) return "the page cannot read the text";
    if (changes.every((each) => each.field === "vllm_version")) return "";
    const [, found] = withChanges(request, tried(changes));
    return [...new Set(found.values())].join("; ");
  };

  const take = (files: Promise<[SourceFile[], string[]]>): void => {
    setNotes(["reading the files …"]);
    files
      .then(([found, notes]) => readBeside({ files: found, notes }))
      .then(
        (read) => {
          setNotes(read.notes);
          setLoose((old) => [
            ...old.filter((each) => !read.configs.some((other) => other.path === each.path)),
            ...read.configs,
          ]);
          const { release, configs } = latest.current;
          if (read.text !== "") replace({ ...EMPTY, text: read.text, release, configs });
          else if (read.configs.length === 0 && read.notes.length === 0) setNotes(["there is no file to read in it"]);
        },
        () => {
          setNotes(["the files cannot be read"]);
        },
      );
  };
  const dropped = (event: TargetedDragEvent<HTMLElement>): void => {
    setOver(false);
    if (event.dataTransfer === null || event.dataTransfer.files.length === 0) return;
    event.preventDefault();
    take(filesOfDrop(event.dataTransfer));
  };

  return (
    <main
      class="ask"
      onDragOver={(event) => {
        if (event.dataTransfer?.types.includes("Files") !== true) return;
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={(event) => {
        if (!(event.relatedTarget instanceof Node) || !event.currentTarget.contains(event.relatedTarget))
          setOver(false);
      }}
      onDrop={dropped}
    >
      <section class={isOver ? "question over" : "question"}>
        <h1>Which runner does it get?</h1>
        <Editor
          text={state.text}
          span={span}
          marks={shownMarks}
          onText={(text) => {
            change({ text, tried: [], step: "" });
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
          <label class="button file-button">
            Choose files
            <input
              class="hidden"
              type="file"
              multiple
              onChange={(event) => {
                take(filesOf([...(event.currentTarget.files ?? [])]));
                event.currentTarget.value = "";
              }}
            />
          </label>
          {state.text === "" && (
            <button
              type="button"
              onClick={() => {
                const configs = { "Qwen/Qwen3-8B": EXAMPLE_CONFIG };
                replace({ ...EMPTY, text: EXAMPLE, release: "0.23.0", configs });
              }}
            >
              Show an example
            </button>
          )}
          {state.text !== "" && (
            <button
              type="button"
              onClick={() => {
                replace(EMPTY);
                setLoose([]);
                setNotes([]);
              }}
            >
              Clear
            </button>
          )}
          {before !== null && before.text !== state.text && (
            <button
              type="button"
              onClick={() => {
                replace(before);
              }}
            >
              Back to the text before
            </button>
          )}
          <span role="status" class="from">
            {isBusy ? "asking…" : ""}
          </span>
        </div>
        {onlyText !== null && (state.release !== "" || given.length + loose.length > 0) && (
          <TextAlone why={onlyText.why} />
        )}
        {notes.length > 0 && (
          <div role="status">
            <ul class="notes from">
              {notes.slice(0, 10).map((note) => (
                <li key={note}>{note}</li>
              ))}
              {notes.length > 10 && <li>and {notes.length - 10} more</li>}
            </ul>
          </div>
        )}
        {given.length > 0 && (
          <p class="chips">
            {given.map((model) => (
              <button
                key={model}
                type="button"
                class="chip"
                onClick={() => {
                  change({ configs: withoutMember(state.configs, model) });
                }}
                aria-label={`Remove the config.json of ${model}`}
              >
                config.json of {model} ×
              </button>
            ))}
          </p>
        )}
        {loose.length > 0 && needed.length === 0 && onlyText === null && !isBusy && (
          <p class="from">
            No engine needs{" "}
            {loose.length === 1 ? loose[0]?.path : `${loose.length.toString()} config.json that were given`}.
          </p>
        )}
        {state.tried.length > 0 && (
          <ul class="chips">
            {state.tried.map((each, n) => {
              const why = refused.get(each);
              return (
                <li key={n}>
                  <button
                    type="button"
                    class={why === undefined ? "chip tried" : "chip"}
                    onClick={() => {
                      change({ tried: state.tried.filter((_, other) => other !== n) });
                    }}
                    aria-label={`${why === undefined ? "Undo" : "Remove"}: ${changeText(each)}`}
                  >
                    {changeText(each)} ×
                  </button>
                  {why !== undefined && <span class="from"> not tried: {why}</span>}
                </li>
              );
            })}
          </ul>
        )}
        {engines?.items.length === 1 && <BesideEngine engines={engines} />}
        {engines !== null && engines.items.length !== 1 && (
          <EngineList
            engines={engines}
            selected={path}
            onSelect={(found) => {
              change({ engine: found, step: "" });
            }}
          />
        )}
      </section>
      <section class={isBusy ? "result busy" : "result"}>
        {needed.length > 0 && (
          <ModelConfigs
            models={needed}
            loose={loose}
            onConfig={(model, config) => {
              setState((old) => ({ ...old, configs: withMember(old.configs, model, config) }));
            }}
          />
        )}
        {problem !== null && needed.length === 0 && <ProblemView problem={problem} />}
        {decision !== null && (
          <AnswerView
            decision={decision}
            manifest={path === "" ? null : (part?.request.manifest ?? null)}
            path={part?.path ?? ""}
            whyNot={whyNot}
            onTry={(changes) => {
              const release = changes.find((each) => each.field === "vllm_version")?.to;
              if (typeof release === "string") change({ release });
              else change({ tried: [...state.tried, ...tried(changes)] });
            }}
          >
            {part !== null && (
              <Strip
                request={part.request}
                path={part.path}
                release={decision.release.decided_as}
                step={state.step}
                onStep={(step) => {
                  change({ step });
                }}
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
              starts, why, and what each release changes.
            </p>
            <ul class="forms">
              <li>
                a command: <code>vllm serve …</code>, <code>docker run …</code>, a script, a systemd unit
              </li>
              <li>Kubernetes manifests, Compose files, chart values, with any number of engines</li>
              <li>
                a deployment (<code>args</code>, <code>env</code>, <code>model_configs</code>) or facts, as JSON or YAML
              </li>
            </ul>
            <p>What you write, choose or drop is sent to this service only.</p>
          </section>
        )}
      </section>
    </main>
  );
}
