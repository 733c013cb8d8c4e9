/** The view Edit: a rule and its cases in an editor, with what the edit means. Nothing on the server changes. */

import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import {
  type ConditionFile,
  type DryRunOfAll,
  get,
  post,
  type Problem,
  type RequestRuleFile,
  type RuleFile,
} from "../api";
import { ProblemView } from "../problem";
import { Prose } from "../prose";
import { useTokenChanges } from "../token";
import { useAnswer } from "../use_answer";
import { Cases } from "./cases";
import { Classes } from "./classes";
import {
  casesPath,
  type Draft,
  EMPTY,
  fileName,
  fragmentOf,
  headOf,
  isEdited,
  kindOf,
  linkOf,
  type LoadedFile,
  loadedFile,
  pathOf,
  replaces,
  schemaOf,
} from "./draft";
import "./edit.css";
import { MAX_TEXT } from "./editor";
import { type Fault, otherFaults, schemaFaults, serviceFaults } from "./faults";
import { RequestClasses } from "./request_classes";
import { PatchView } from "./patch_view";
import { TEMPLATES } from "./templates";
import { TextEditor } from "./text_editor";
import { loadVocabulary, type Vocabulary } from "./vocabulary";

const WAIT = 400;
const KEEP_WAIT = 300;
const FORBIDDEN = 403;
const UNAUTHORIZED = 401;
const NO_USERS: readonly string[] = [];
const INVALID = "urn:runner-policy:problem:rules-invalid";

/** The names that the service gives to what the page sends, and to the files that this replaces. */
function filesOf(path: string, sent: string): string[] {
  return [path, sent];
}

function Faults({
  title,
  faults,
  onFault,
}: {
  readonly title: string;
  readonly faults: readonly Fault[];
  readonly onFault: (fault: Fault) => void;
}) {
  if (faults.length === 0) return null;
  return (
    <>
      <h3>{title}</h3>
      <ul class="faults">
        {faults.map((fault, n) => (
          <li key={n}>
            <button
              type="button"
              class="plain"
              onClick={() => {
                onFault({ ...fault });
              }}
            >
              line {fault.line}, column {fault.column}
            </button>{" "}
            <Prose text={fault.message} />
          </li>
        ))}
      </ul>
    </>
  );
}

/** The most rules of a condition whose cases are run. */
const MAX_USERS = 20;

/** The texts of the cases of the rules that use a condition, by rule. */
function useCasesOfUsers(users: readonly string[]): ReadonlyMap<string, string> {
  const [found, setFound] = useState<ReadonlyMap<string, string>>(new Map());
  useEffect(() => {
    setFound(new Map());
    if (users.length === 0) return undefined;
    const control = new AbortController();
    const asked = users.slice(0, MAX_USERS).map(async (id): Promise<[string, string][]> => {
      const answer = await get<RuleFile>(`v1/rules/${encodeURIComponent(id)}`, control.signal);
      const text = "value" in answer ? answer.value.cases?.text : undefined;
      return text === undefined ? [] : [[id, text]];
    });
    Promise.all(asked).then(
      (texts) => {
        if (!control.signal.aborted) setFound(new Map(texts.flat()));
      },
      () => undefined,
    );
    return () => {
      control.abort();
    };
  }, [users]);
  return found;
}

/** What the page cannot do with this token, and what it still does. */
function NotAllowed({ problem }: { readonly problem: Problem }) {
  return (
    <section class="card problem" role="alert">
      <h2>{problem.title}</h2>
      <p>
        <Prose text={problem.detail} />
      </p>
      <p>
        So this page cannot say what the edit means, nor run its cases. Completion, the faults that the schema finds,
        and the patch work without it. Give a token with the scope <code>dry-run</code> at “Token” above.
      </p>
    </section>
  );
}

export function Edit() {
  const [vocabulary, setVocabulary] = useState<Vocabulary | null>(null);
  /** Why the vocabulary, and why a rule, could not be had: either may be answered first. */
  const [loadProblem, setLoadProblem] = useState<Problem | null>(null);
  const [openProblem, setOpenProblem] = useState<Problem | null>(null);
  const [isOpening, setOpening] = useState(true);
  const [draft, setDraft] = useState<Draft>(EMPTY);
  const [isOpen, setOpen] = useState(false);
  /** Counts the drafts that were opened, and what replaced the texts of one. */
  const [opened, setOpened] = useState(0);
  const [revision, setRevision] = useState(0);
  const [wanted, setWanted] = useState("");
  const [refused, setRefused] = useState("");
  const [again, setAgain] = useState(0);
  const [ruleTarget, setRuleTarget] = useState<Fault | null>(null);
  const [casesTarget, setCasesTarget] = useState<Fault | null>(null);
  const tokens = useTokenChanges();
  const current = useRef({ draft, isOpen });
  useEffect(() => {
    current.current = { draft, isOpen };
  }, [draft, isOpen]);

  const open = useCallback(async (hash: string, signal: AbortSignal): Promise<void> => {
    setOpening(true);
    const link = await linkOf(hash);
    if (signal.aborted) return;
    setOpenProblem(null);
    if (link.id === "" && link.rule === null) {
      setDraft(EMPTY);
      setOpen(false);
      setOpening(false);
      return;
    }
    let base: LoadedFile | null = null;
    if (link.id !== "") {
      const answer = await get<RuleFile | RequestRuleFile | ConditionFile>(
        `v1/rules/${encodeURIComponent(link.id)}`,
        signal,
      );
      if (signal.aborted) return;
      if ("problem" in answer) {
        setOpenProblem(answer.problem);
        setOpening(link.rule !== null);
        if (link.rule === null) return;
      } else base = loadedFile(answer.value);
    }
    setOpening(false);
    setDraft({ base, rule: link.rule ?? base?.text ?? "", cases: link.cases ?? base?.cases?.text ?? "" });
    setOpened((before) => before + 1);
    setOpen(true);
  }, []);

  useEffect(() => {
    const control = new AbortController();
    loadVocabulary(control.signal).then(
      (found) => {
        if ("problem" in found) setLoadProblem(found.problem);
        else {
          setLoadProblem(null);
          setVocabulary(found);
        }
      },
      () => undefined,
    );
    let opening = new AbortController();
    const moved = (): void => {
      opening.abort();
      opening = new AbortController();
      open(location.hash, opening.signal).catch(() => undefined);
    };
    if (!current.current.isOpen) moved(); // what is being edited stays
    addEventListener("hashchange", moved);
    return () => {
      control.abort();
      opening.abort();
      removeEventListener("hashchange", moved);
    };
  }, [open, again, tokens]);

  useEffect(() => {
    if (!isOpen) return undefined;
    const timer = setTimeout(() => {
      fragmentOf(draft).then(
        (fragment) => {
          if (current.current.draft === draft) history.replaceState(null, "", `#${fragment}`);
        },
        () => undefined,
      );
    }, KEEP_WAIT);
    return () => {
      clearTimeout(timer);
    };
  }, [draft, isOpen]);

  const head = useMemo(() => headOf(draft.rule), [draft.rule]);
  const kind = vocabulary === null ? null : kindOf(draft, head, vocabulary);
  const path = vocabulary === null || kind === null ? "" : pathOf(draft, head, kind, vocabulary);
  const schema = vocabulary === null || kind === null ? null : schemaOf(kind, vocabulary);
  const isCondition = kind === "condition";
  const { base } = draft;
  const isReplaced = base !== null && replaces(draft, head);
  const casesSchema = kind === "request" ? vocabulary?.requestCases : vocabulary?.cases;
  const users = isReplaced ? base.usedBy : NO_USERS; // a copy has none yet
  const casesOfUsers = useCasesOfUsers(users);
  const ask = useMemo(() => {
    if (!isOpen || draft.rule.trim() === "") return null;
    const own = draft.cases.trim() === "" || isCondition ? [] : [draft.cases];
    const cases = isCondition ? [...casesOfUsers.values()] : own;
    const body = { request: { facts: {} }, rules: [draft.rule], cases, changes: "all" };
    return (signal: AbortSignal) => post<DryRunOfAll>("v1/dry-run", body, signal);
  }, [isOpen, draft.rule, draft.cases, isCondition, casesOfUsers]);
  const [answer, isBusy] = useAnswer(ask, WAIT, again);

  const found = answer !== null && "value" in answer ? answer.value : null;
  const refusal = answer !== null && "problem" in answer ? answer.problem : null;
  const isChecked = !isBusy && (found !== null || refusal?.type === INVALID);
  const ruleFaults = useMemo(() => {
    if (schema === null || !isOpen) return [];
    if (!isChecked) return schemaFaults(draft.rule, schema);
    return refusal === null ? [] : serviceFaults(draft.rule, refusal, filesOf(path, "rules[0]"));
  }, [draft.rule, schema, isChecked, refusal, path, isOpen]);
  const casesFaults = useMemo(() => {
    if (casesSchema === undefined || !isOpen || isCondition || draft.cases.trim() === "") return [];
    if (!isChecked) return schemaFaults(draft.cases, casesSchema);
    return refusal === null ? [] : serviceFaults(draft.cases, refusal, ["cases[0]"]);
  }, [draft.cases, casesSchema, isCondition, isChecked, refusal, isOpen]);
  const others = isChecked && refusal !== null ? otherFaults(refusal, [...filesOf(path, "rules[0]"), "cases[0]"]) : [];

  const onRefused = (characters: number): void => {
    setRefused(
      `A rule file has at most ${MAX_TEXT.toString()} characters; with what was put in, the text would have ` +
        `${characters.toString()}. It was left as it is.`,
    );
  };
  const change = (part: Partial<Draft>): void => {
    setRefused("");
    setDraft((before) => ({ ...before, ...part }));
  };
  /** Leaves the draft; one that a link keeps is found again with the browser's way back. */
  const leave = async (): Promise<boolean> => {
    if (!isEdited(draft)) return true;
    const fragment = await fragmentOf(draft);
    if (fragment !== "") {
      history.replaceState(null, "", `#${fragment}`);
      return true;
    }
    return confirm("The edit is too long for a link, and is lost if another rule is opened. Open it?");
  };
  const openRule = (id: string): void => {
    leave().then(
      (may) => {
        if (may) location.hash = encodeURIComponent(id);
      },
      () => undefined,
    );
  };
  const begin = (name: string): void => {
    const template = TEMPLATES.find((each) => each.name === name);
    if (template === undefined) return;
    leave().then(
      (may) => {
        if (!may) return;
        history.pushState(null, "", "#");
        setOpenProblem(null);
        setDraft({ base: null, rule: template.rule, cases: template.cases });
        setOpened((before) => before + 1);
        setOpen(true);
      },
      () => undefined,
    );
  };

  // what hinders both is said once
  const problems = [loadProblem, openProblem].filter(
    (each, n, all) => each !== null && !(n > 0 && all[0]?.title === each.title && all[0].detail === each.detail),
  ) as Problem[];
  const edits = [
    { path, before: isReplaced ? base.text : null, after: draft.rule },
    ...(draft.cases === "" || isCondition
      ? []
      : [{ path: casesPath(path), before: isReplaced ? (base.cases?.text ?? null) : null, after: draft.cases }]),
  ];
  const what = isCondition ? "condition" : kind === "request" ? "rule about requests" : "rule";
  const newText = base === null ? `a new ${what}` : `a new ${what} beside ${base.id}`;
  const isForbidden = refusal?.status === FORBIDDEN || refusal?.status === UNAUTHORIZED;
  const cases = found?.cases;
  return (
    <main class="edit">
      <section>
        <h1>Edit</h1>
        <form
          class="row"
          onSubmit={(event) => {
            event.preventDefault();
            openRule(wanted);
          }}
        >
          <label>
            Rule{" "}
            <input
              list="edit-rules"
              value={wanted}
              onInput={(event) => {
                setWanted(event.currentTarget.value);
              }}
            />
          </label>
          <datalist id="edit-rules">
            {[...(vocabulary?.rules ?? []), ...(vocabulary?.requestRules ?? [])].map((rule) => (
              <option key={rule.id} value={rule.id}>
                {rule.title}
              </option>
            ))}
            {vocabulary?.conditions.map((condition) => (
              <option key={condition.id} value={condition.id}>
                {`a condition: ${condition.why}`}
              </option>
            ))}
          </datalist>
          <button type="submit">Open</button>
          <label>
            New rule{" "}
            <select
              value=""
              onChange={(event) => {
                begin(event.currentTarget.value);
                event.currentTarget.value = "";
              }}
            >
              <option value="">choose a template</option>
              {TEMPLATES.map((template) => (
                <option key={template.name} value={template.name}>
                  {template.name}
                </option>
              ))}
            </select>
          </label>
        </form>
        {refused !== "" && (
          <p role="alert" class="card problem">
            {refused}
          </p>
        )}
        {isOpen && vocabulary !== null && schema !== null && (
          <>
            <h2>
              <code>{path}</code>
              {isReplaced ? "" : `, ${newText}`}
            </h2>
            <TextEditor
              key={`rule ${opened.toString()}`}
              label="The rule"
              text={draft.rule}
              revision={revision}
              language={{ schema, vocabulary }}
              faults={ruleFaults}
              target={ruleTarget}
              onText={(rule) => {
                change({ rule });
              }}
              onRefused={onRefused}
            />
            {isCondition ? (
              <p class="from">
                {users.length > 0 ? (
                  <>
                    Used by{" "}
                    {users.map((id, n) => (
                      <span key={id}>
                        {n > 0 && ", "}
                        <a href={`rules#${encodeURIComponent(id)}`}>{id}</a>
                      </span>
                    ))}
                    . Their cases are run with it.
                  </>
                ) : (
                  "A condition has no cases of its own: those of the rules that use it are run."
                )}
              </p>
            ) : (
              <>
                <h2>
                  <code>{casesPath(path)}</code>
                </h2>
                <TextEditor
                  key={`cases ${opened.toString()}`}
                  label="Its cases"
                  text={draft.cases}
                  revision={revision}
                  language={{ schema: casesSchema ?? vocabulary.cases, vocabulary }}
                  faults={casesFaults}
                  target={casesTarget}
                  onText={(text) => {
                    change({ cases: text });
                  }}
                  onRefused={onRefused}
                />
              </>
            )}
            <p class="row">
              {base !== null && isEdited(draft) && (
                <button
                  type="button"
                  onClick={() => {
                    change({ rule: base.text, cases: base.cases?.text ?? "" });
                    setRevision(revision + 1);
                  }}
                >
                  Back to the loaded rule
                </button>
              )}
              <span class="from">
                Ctrl-Space completes, F8 goes to the next fault, Ctrl-] indents; Tab leaves the editor.
              </span>
            </p>
          </>
        )}
      </section>
      <section class="result" aria-busy={isBusy}>
        {problems.map((each, n) => (
          <ProblemView key={n} problem={each} />
        ))}
        {(problems.length > 0 || (refusal !== null && refusal.type !== INVALID && !isForbidden)) && (
          <p>
            <button
              type="button"
              onClick={() => {
                setLoadProblem(null);
                setOpenProblem(null);
                setAgain(again + 1);
              }}
            >
              Try again
            </button>
          </p>
        )}
        {isOpening && problems.length === 0 && (
          <p role="status" class="card">
            Loading the rule …
          </p>
        )}
        {!isOpen && !isOpening && openProblem === null && (
          <section class="card">
            <h2>Try an edit</h2>
            <p>
              Open a rule, or begin a new one. While you type, the page shows its faults, runs its cases, and says which
              deployments would be decided otherwise, in which releases. Nothing on the server changes: take the result
              as a patch.
            </p>
          </section>
        )}
        {isOpen && (
          <>
            <p role="status" class="hidden">
              {isBusy
                ? "checking"
                : `${(ruleFaults.length + casesFaults.length + others.length).toString()} faults${
                    found === null ? "" : `, ${found.changes.length.toString()} classes of deployments change`
                  }`}
            </p>
            {refusal !== null &&
              refusal.type !== INVALID &&
              (isForbidden ? <NotAllowed problem={refusal} /> : <ProblemView problem={refusal} />)}
            {ruleFaults.length + casesFaults.length + others.length > 0 && (
              <section class="card problem">
                <h2>Faults</h2>
                <Faults title="The rule" faults={ruleFaults} onFault={setRuleTarget} />
                <Faults title="Its cases" faults={casesFaults} onFault={setCasesTarget} />
                {others.length > 0 && (
                  <>
                    <h3>Elsewhere</h3>
                    <ul>
                      {others.map((each) => (
                        <li key={each}>
                          <Prose text={each} />
                        </li>
                      ))}
                    </ul>
                  </>
                )}
              </section>
            )}
            {cases && (
              <section class="card">
                <h2>Cases</h2>
                <Cases
                  results={cases.results}
                  missing={isCondition ? [] : cases.missing}
                  onLine={
                    isCondition
                      ? null
                      : (line) => {
                          setCasesTarget({ line, column: 1, length: 0, message: "" });
                        }
                  }
                />
              </section>
            )}
            {found !== null && (
              <section class="card">
                <h2>What the edit means{isBusy && ": checking …"}</h2>
                {kind !== "request" && (
                  <Classes
                    changes={found.changes}
                    problems={found.known_problems ?? []}
                    releases={vocabulary?.releases ?? []}
                  />
                )}
                {(kind === "request" || found.requests !== undefined) && (
                  <RequestClasses changes={found.requests ?? []} releases={vocabulary?.releases ?? []} />
                )}
              </section>
            )}
            <section class="card">
              <h2>Take it</h2>
              <PatchView edits={edits} name={fileName(head, "rule")} />
            </section>
          </>
        )}
      </section>
    </main>
  );
}
