/** The view Fleet: an impact result that is dropped or pasted. Nothing of it leaves the browser. */

import { useCallback, useEffect, useMemo, useState } from "preact/hooks";
import { get, type Problem, type Rule } from "../api";
import { ProblemView } from "../problem";
import { FleetView } from "./fleet_view";
import { FleetInput } from "./input";
import { useLink } from "./link";
import { isImpact, linesAsImpact, readImpact, type FleetResult, type RuleText } from "./result";
import { NO_VIEW, shortened, type View, viewOf } from "./view_state";

/** The longest text that is kept in the address, before compression. */
const MAX_LINKED = 1 << 20;

type Read = { readonly result: FleetResult } | { readonly problem: Problem };

/** The impact that a text has as JSON or JSON lines, or what is wrong with it. */
function read(text: string): Read {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    value = linesAsImpact(text);
  }
  if (!isImpact(value)) {
    const detail = "expected the JSON of `runner-policy impact … --json`, or its JSON lines, got something else";
    return { problem: { title: "This is no impact result", detail } };
  }
  const found = readImpact(value);
  if ("result" in found) return found;
  const title = "The impact result has faults";
  return { problem: { title, detail: "", errors: found.faults.map((fault) => ({ ...fault })) } };
}

export function Fleet() {
  const [text, setText] = useState("");
  const [source, setSource] = useState("");
  const [found, setFound] = useState<Read | null>(null);
  const [isBusy, setBusy] = useState(false);
  const [view, setView] = useState<View>(NO_VIEW);
  const [texts, setTexts] = useState<ReadonlyMap<string, RuleText>>(new Map());
  const [withoutTexts, setWithoutTexts] = useState<Problem | null>(null);
  const take = useCallback((given: string, name: string, shown: View) => {
    setText(given);
    setSource(name);
    setFound(null);
    setView(shown);
    setBusy(given.trim() !== "");
  }, []);
  const short = useMemo(() => shortened(view), [view]);
  const state = useMemo(() => (text === "" ? {} : text.length > MAX_LINKED ? null : { ...short, text }), [text, short]);
  const onRead = useCallback(
    (value: unknown) => {
      const given = typeof value === "object" && value !== null && "text" in value ? value.text : undefined;
      if (typeof given === "string" && given !== text) take(given, "the link", viewOf(value));
      else setView(viewOf(value));
    },
    [take, text],
  );
  useLink(state, short, view.open, onRead);
  useEffect(() => {
    if (text.trim() === "") return undefined;
    // the browser shows that it reads before it does, as a large result takes seconds
    const timer = setTimeout(() => {
      setFound(read(text));
      setBusy(false);
    }, 30);
    return () => {
      clearTimeout(timer);
    };
  }, [text]);
  const hasResult = found !== null && "result" in found;
  useEffect(() => {
    if (!hasResult) return undefined;
    const control = new AbortController();
    get<{ rules: Rule[] }>("v1/rules", control.signal).then(
      (answer) => {
        if ("value" in answer) setTexts(new Map(answer.value.rules.map((rule) => [rule.id, rule])));
        setWithoutTexts("problem" in answer ? answer.problem : null);
      },
      () => undefined,
    );
    return () => {
      control.abort();
    };
  }, [hasResult]);
  const rules = useMemo(() => ({ texts, address: (id: string) => `./rules#${encodeURIComponent(id)}` }), [texts]);
  if (hasResult)
    return (
      <>
        <section class="source row" aria-label="The shown result">
          <span class="from">{source}</span>
          {withoutTexts !== null && (
            <span role="status" class="from">
              The texts of rules are not shown. {withoutTexts.title}
              {withoutTexts.status === 401 || withoutTexts.status === 403
                ? ": give a token that may read at “Token”."
                : "."}
            </span>
          )}
          <button
            type="button"
            onClick={() => {
              take("", "", NO_VIEW);
            }}
          >
            Another fleet
          </button>
        </section>
        <FleetView result={found.result} view={view} rules={rules} onView={setView} />
      </>
    );
  return (
    <main class="fleet-input">
      <section>
        <FleetInput
          isBusy={isBusy}
          onText={(given, name) => {
            take(given, name, NO_VIEW);
          }}
        />
        {found !== null && "problem" in found && <ProblemView problem={found.problem} />}
      </section>
      <section class="card">
        <h2>What it shows</h2>
        <p>
          What another vLLM release changes for everything that you run: a heat map of deployments and releases, what
          makes each change, and a page for each deployment. Make the result with
        </p>
        <pre class="wrap">
          {
            "kubectl get deploy,sts,pod -A -o yaml \\\n  | runner-policy impact - --releases 0.27.0..0.33.0 --json > impact.json"
          }
        </pre>
        <p>
          and drop it here: it stays in this browser. <code>-o impact.html</code> makes the same view as one file.
        </p>
      </section>
    </main>
  );
}
