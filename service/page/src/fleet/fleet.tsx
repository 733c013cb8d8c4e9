/**
 * The view Fleet: an impact result, which stays in the browser, or manifests, which the service compares. Owns when the
 * service is asked.
 */

import { useCallback, useEffect, useMemo, useState } from "preact/hooks";
import { get, post, type Problem, type Rule } from "../api";
import { completed } from "../ask/input";
import { ModelConfigs, neededModels } from "../ask/model_configs";
import { knownReleases } from "../ask/strip";
import { ProblemView } from "../problem";
import { isObject } from "../member";
import { useTokenChanges } from "../token";
import { type Comparison, ComparisonForm, fieldsOf, NEWEST } from "./comparison";
import { FleetView } from "./fleet_view";
import { FleetInput } from "./input";
import { useLink } from "./link";
import { type FleetResult, readImpact, type RuleText } from "./result";
import { type Deployment, readSources, type Source, withSources } from "./sources";
import { NO_VIEW, shortened, type View, viewOf } from "./view_state";

/** The longest texts that are kept in the address, before compression. */
const MAX_LINKED = 1 << 20;
/** The most sources that a link has. */
const MAX_SOURCES = 2000;
const MAX_CONFIGS_ASKED = 20;
/** The most files that are named as unreadable. */
const MAX_NAMED = 10;

interface Question {
  readonly sources: readonly Source[];
  readonly comparison: Comparison;
  readonly configs: Readonly<Record<string, unknown>>;
}
const NOT_COMPARED: Problem = { title: "The page has failed", detail: "It cannot compare this. Load it again." };
const NOTHING: Question = { sources: [], comparison: NEWEST, configs: {} };

/** What is known of a question: its result or the problem, and how many objects run no vLLM. */
interface Found {
  readonly result?: FleetResult;
  readonly problem?: Problem;
  readonly ignored?: number;
  readonly isAsked?: boolean;
}

/** A question as a link has it; anything else is left out. */
function questionOf(value: unknown): Question {
  if (!isObject(value)) return NOTHING;
  const text = (found: unknown): string => (typeof found === "string" ? found : "");
  const sources = Array.isArray(value.sources) ? value.sources.slice(0, MAX_SOURCES).filter(isObject) : [];
  const comparison = isObject(value.comparison) ? value.comparison : {};
  return {
    sources: sources.map((each) => ({ name: text(each.name), text: text(each.text) })),
    comparison: {
      from: text(comparison.from),
      to: text(comparison.to),
      isWhole: comparison.isWhole === true,
      isExplained: comparison.isExplained === true,
    },
    configs: isObject(value.configs) ? value.configs : {},
  };
}

/** What the service answers to deployments. */
async function compared(deployments: readonly Deployment[], question: Question, signal: AbortSignal): Promise<Found> {
  const releases = await knownReleases();
  const requests = deployments.map((each) => completed(each.request, "", question.configs, false));
  const fields = fieldsOf(question.comparison, releases);
  const answer = await post<Record<string, unknown>>("v1/impact", { deployments: requests, ...fields }, signal);
  if ("problem" in answer) return { problem: answer.problem, isAsked: true };
  const found = readImpact(answer.value);
  if ("faults" in found) {
    const errors = found.faults.map((fault) => ({ ...fault }));
    return { problem: { title: "The answer has faults", detail: "", errors }, isAsked: true };
  }
  const ignored = Array.isArray(answer.value.ignored) ? answer.value.ignored.length : 0;
  return { result: withSources(found.result, deployments), ignored, isAsked: true };
}

/** The problems of deployments that are not decided. */
function problemsOf(result: FleetResult): Problem[] {
  const all = result.items.flatMap((item) => [
    ...(item.problem === undefined ? [] : [item.problem]),
    ...Object.values(item.releases).flatMap((answer) => ("problem" in answer ? [answer.problem] : [])),
  ]);
  return all.map(({ title, detail, errors = [] }) => ({
    title,
    detail,
    errors: errors.map((fault) => ({ ...fault })),
  }));
}

/** The texts of the loaded rules once there is a result, or why there are none. */
function useRules(isWanted: boolean): [ReadonlyMap<string, RuleText>, Problem | null] {
  const [texts, setTexts] = useState<ReadonlyMap<string, RuleText>>(new Map());
  const [problem, setProblem] = useState<Problem | null>(null);
  const tokens = useTokenChanges();
  useEffect(() => {
    if (!isWanted) return undefined;
    const control = new AbortController();
    get<{ rules: Rule[] }>("v1/rules", control.signal).then(
      (answer) => {
        if ("value" in answer) setTexts(new Map(answer.value.rules.map((rule) => [rule.id, rule])));
        setProblem("problem" in answer ? answer.problem : null);
      },
      () => undefined,
    );
    return () => {
      control.abort();
    };
  }, [isWanted, tokens]);
  return [texts, problem];
}

/** What is missing in the comparison. */
function Unreadable({ names }: { readonly names: readonly string[] }) {
  if (names.length === 0) return null;
  const more = names.length - MAX_NAMED;
  return (
    <p role="status" class="from">
      {`Left out, as it cannot be read: ${names.slice(0, MAX_NAMED).join(", ")}`}
      {more > 0 && ` and ${more.toString()} more`}
    </p>
  );
}

function WithoutTexts({ problem }: { readonly problem: Problem }) {
  const needsToken = problem.status === 401 || problem.status === 403;
  return (
    <span role="status" class="from">
      The texts of rules are not shown. {problem.title}
      {needsToken ? ": give a token that may read at “Token”." : "."}
    </span>
  );
}

function About() {
  return (
    <section class="card">
      <h2>What it shows</h2>
      <p>
        What another vLLM release changes for everything that you run: a heat map of deployments and releases, what
        makes each change, and a page for each deployment.
      </p>
      <p>
        Manifests, values of charts, commands and requests are sent to this service only. A result stays in this
        browser. For large fleets, make one with
      </p>
      <pre class="wrap">
        {
          "kubectl get deploy,sts,pod -A -o yaml \\\n  | runner-policy impact - --releases 0.27.0..0.33.0 --json > impact.json"
        }
      </pre>
      <p>
        With <code>-o impact.html</code> it makes the same view as one file.
      </p>
    </section>
  );
}

export function Fleet() {
  const [question, setQuestion] = useState<Question>(NOTHING);
  const [found, setFound] = useState<Found>({});
  const [isBusy, setBusy] = useState(false);
  const [unreadable, setUnreadable] = useState<readonly string[]>([]);
  const [view, setView] = useState<View>(NO_VIEW);
  const [releases, setReleases] = useState<readonly string[]>([]);
  const tokens = useTokenChanges();
  const ask = useCallback((asked: Question, shown: View) => {
    setQuestion(asked);
    setFound({});
    setView(shown);
  }, []);
  const change = useCallback((part: Partial<Question>) => {
    setQuestion((before) => ({ ...before, ...part }));
  }, []);
  const short = useMemo(() => shortened(view), [view]);
  const state = useMemo(() => {
    if (question.sources.length === 0) return {};
    const length = question.sources.reduce((sum, each) => sum + each.text.length, 0);
    return length > MAX_LINKED ? null : { ...short, ...question };
  }, [question, short]);
  const onRead = useCallback(
    (value: unknown) => {
      const asked = questionOf(value);
      if (asked.sources.length > 0 && JSON.stringify(asked) !== JSON.stringify(question)) ask(asked, viewOf(value));
      else setView(viewOf(value));
    },
    [ask, question],
  );
  useLink(state, short, view.open, onRead);
  useEffect(() => {
    if (question.sources.length === 0) {
      setBusy(false);
      return undefined;
    }
    const control = new AbortController();
    const run = async (): Promise<Found> => {
      const fleet = readSources(question.sources);
      return "deployments" in fleet ? compared(fleet.deployments, question, control.signal) : fleet;
    };
    setBusy(true);
    // the browser shows that it reads before it does, as a large result takes seconds
    const timer = setTimeout(() => {
      run().then(
        (answer) => {
          if (control.signal.aborted) return;
          setFound((before) => (answer.problem === undefined ? answer : { ...before, ...answer }));
          setBusy(false);
        },
        () => {
          if (control.signal.aborted) return;
          setFound((before) => ({ ...before, problem: NOT_COMPARED }));
          setBusy(false);
        },
      );
    }, 30);
    return () => {
      control.abort();
      clearTimeout(timer);
    };
  }, [question, tokens]);
  useEffect(() => {
    knownReleases().then(setReleases, () => undefined);
  }, [tokens]);
  const { result, problem } = found;
  const [texts, withoutTexts] = useRules(result !== undefined);
  const rules = useMemo(() => ({ texts, address: (id: string) => `./rules#${encodeURIComponent(id)}` }), [texts]);
  const needed = useMemo(
    () => (result === undefined || found.isAsked !== true ? [] : neededModels(problemsOf(result))),
    [result, found.isAsked],
  );
  if (result === undefined)
    return (
      <main class="fleet-input">
        <section>
          <FleetInput
            isBusy={isBusy}
            onSources={(sources, names) => {
              setUnreadable(names);
              ask({ ...question, sources }, NO_VIEW);
            }}
          />
          <Unreadable names={unreadable} />
          {problem !== undefined && !isBusy && <ProblemView problem={problem} />}
        </section>
        <About />
      </main>
    );
  return (
    <>
      <section class="source" aria-label="What is compared">
        <div class="row">
          <span class="from">
            {question.sources
              .map((each) => each.name)
              .join(", ")
              .slice(0, 200)}
          </span>
          {found.isAsked && (
            <ComparisonForm
              comparison={question.comparison}
              releases={releases}
              onComparison={(comparison) => {
                change({ comparison });
              }}
            />
          )}
          <button
            type="button"
            onClick={() => {
              setUnreadable([]);
              ask(NOTHING, NO_VIEW);
            }}
          >
            Another fleet
          </button>
          <span role="status" class="from">
            {isBusy && "comparing…"}
            {!isBusy && (found.ignored ?? 0) > 0 && `other objects: ${(found.ignored ?? 0).toString()}`}
          </span>
          {withoutTexts !== null && <WithoutTexts problem={withoutTexts} />}
        </div>
        <Unreadable names={unreadable} />
        {problem !== undefined && !isBusy && <ProblemView problem={problem} />}
        {needed.length > 0 && (
          <ModelConfigs
            models={needed.slice(0, MAX_CONFIGS_ASKED)}
            onConfig={(model, config) => {
              change({ configs: { ...question.configs, [model]: config } });
            }}
          />
        )}
      </section>
      <FleetView result={result} view={view} rules={rules} onView={setView} />
    </>
  );
}
