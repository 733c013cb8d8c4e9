/** The text editor: CodeMirror in a shadow root, where it uses constructed style sheets instead of inline styles. */

import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentLess, indentMore } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { bracketMatching, HighlightStyle, indentOnInput, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { type Diagnostic, lintGutter, lintKeymap, setDiagnostics } from "@codemirror/lint";
import { highlightSelectionMatches, searchKeymap } from "@codemirror/search";
import { EditorState, Transaction } from "@codemirror/state";
import {
  drawSelection,
  EditorView,
  highlightActiveLine,
  highlightActiveLineGutter,
  highlightSpecialChars,
  hoverTooltip,
  keymap,
  lineNumbers,
} from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { completionsAt, type Language, meaningAt } from "./completion";
import type { Fault } from "./faults";

/** The most characters that a rule file may have. */
export const MAX_TEXT = 256 * 1024;

export interface Editor {
  /** Replaces the whole text; the change can be undone. */
  readonly replace: (text: string) => void;
  readonly show: (faults: readonly Fault[]) => void;
  readonly moveTo: (fault: Fault) => void;
  readonly destroy: () => void;
}

interface EditorOptions {
  readonly parent: HTMLElement;
  readonly label: string;
  readonly text: string;
  readonly language: () => Language;
  readonly onText: (text: string) => void;
  readonly onRefused: (characters: number) => void;
}

const theme = EditorView.theme({
  "&": { height: "100%", color: "var(--ink)", backgroundColor: "var(--card)", fontSize: "0.875rem" },
  "&.cm-focused": { outline: "3px solid var(--link)", outlineOffset: "-1px" },
  ".cm-scroller": { fontFamily: "ui-monospace, 'SF Mono', Menlo, Consolas, monospace", lineHeight: "1.5" },
  ".cm-content": { caretColor: "var(--ink)", padding: "0.5rem 0" },
  ".cm-cursor": { borderLeftColor: "var(--ink)", borderLeftWidth: "2px" },
  ".cm-gutters": { backgroundColor: "var(--paper)", color: "var(--soft)", borderRight: "1px solid var(--line)" },
  ".cm-activeLine": { backgroundColor: "color-mix(in srgb, var(--link) 7%, transparent)" },
  ".cm-activeLineGutter": { backgroundColor: "var(--line)", color: "var(--ink)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": {
    backgroundColor: "color-mix(in srgb, var(--link) 28%, transparent)",
  },
  ".cm-selectionMatch": { backgroundColor: "var(--mark)" },
  "&.cm-focused .cm-matchingBracket": { backgroundColor: "var(--mark)", color: "inherit" },
  ".cm-tooltip": {
    backgroundColor: "var(--card)",
    color: "var(--ink)",
    border: "1px solid var(--line)",
    borderRadius: "6px",
    boxShadow: "0 4px 16px rgb(0 0 0 / 0.2)",
    maxWidth: "min(34rem, 90vw)",
  },
  ".cm-tooltip-autocomplete > ul > li": { padding: "0.15rem 0.5rem" },
  ".cm-tooltip-autocomplete > ul": { maxWidth: "min(32rem, 85vw)" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li[aria-selected]": {
    backgroundColor: "var(--link)",
    color: "var(--card)",
  },
  ".cm-completionInfo": { padding: "0.4rem 0.6rem", maxWidth: "22rem", whiteSpace: "pre-wrap" },
  ".cm-completionDetail": { color: "inherit", opacity: "0.85" },
  ".cm-meaning": { padding: "0.4rem 0.6rem" },
  ".cm-diagnostic": { padding: "0.3rem 0.6rem", borderLeft: "4px solid var(--stops)", whiteSpace: "pre-wrap" },
  ".cm-lintRange-error": {
    backgroundImage: "none",
    textDecoration: "underline wavy var(--stops)",
    textDecorationSkipInk: "none",
  },
  ".cm-panels": { backgroundColor: "var(--paper)", color: "var(--ink)" },
  ".cm-panel.cm-search input, .cm-panel.cm-search button": {
    backgroundColor: "var(--card)",
    backgroundImage: "none",
    color: "var(--ink)",
    border: "1px solid var(--line)",
    borderRadius: "4px",
  },
  ".cm-panel.cm-panel-lint ul [aria-selected]": { backgroundColor: "var(--line)", color: "var(--ink)" },
});

const highlighting = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--link)" },
  { tag: [tags.comment, tags.meta], color: "var(--soft)", fontStyle: "italic" },
  { tag: [tags.string, tags.content], color: "var(--ink)" },
  { tag: [tags.keyword, tags.bool, tags.number], color: "var(--own)" },
  { tag: [tags.separator, tags.punctuation, tags.squareBracket, tags.brace], color: "var(--soft)" },
]);

/** An editor in `parent`, which must have no shadow root yet or the one of an editor before. */
export function createEditor(options: EditorOptions): Editor {
  const root = options.parent.shadowRoot ?? options.parent.attachShadow({ mode: "open" });
  let isReplacing = false;
  const view = new EditorView({
    root,
    parent: root,
    state: stateOf(options.text),
  });

  function stateOf(text: string): EditorState {
    return EditorState.create({
      doc: text,
      extensions: [
        // A file keeps its line ends; one with both kinds is left as it is.
        EditorState.lineSeparator.of(/\r\n/.test(text) && !/(?<!\r)\n/.test(text) ? "\r\n" : "\n"),
        lineNumbers(),
        highlightActiveLineGutter(),
        highlightSpecialChars(),
        history(),
        drawSelection(),
        EditorState.allowMultipleSelections.of(true),
        indentUnit.of("  "),
        indentOnInput(),
        bracketMatching(),
        closeBrackets(),
        autocompletion({
          override: [(context) => completionsAt(context, options.language())],
          activateOnTyping: true,
          activateOnCompletion: (completion) => completion.type === "property",
          icons: false,
        }),
        highlightActiveLine(),
        highlightSelectionMatches(),
        lintGutter(),
        hoverTooltip((shown, position) => hover(shown, position, options.language())),
        yaml(),
        syntaxHighlighting(highlighting),
        theme,
        EditorView.lineWrapping,
        EditorView.contentAttributes.of({ "aria-label": options.label, spellcheck: "false", tabindex: "0" }),
        // Tab leaves the editor, so that it is no trap for the keyboard.
        keymap.of([
          { key: "Mod-]", run: indentMore },
          { key: "Mod-[", run: indentLess },
          ...closeBracketsKeymap,
          ...completionKeymap,
          ...lintKeymap,
          ...searchKeymap,
          ...historyKeymap,
          ...defaultKeymap,
        ]),
        EditorView.domEventHandlers({ beforeinput: (event, shown) => insertText(event, shown) }),
        EditorState.transactionFilter.of((transaction) => refuseLarge(transaction)),
        EditorView.updateListener.of((update) => {
          if (update.docChanged && !isReplacing) options.onText(textOf(update.state));
        }),
      ],
    });
  }

  function refuseLarge(transaction: Transaction): Transaction | [] {
    if (!transaction.docChanged || isReplacing) return transaction;
    const { length } = transaction.newDoc;
    if (length <= MAX_TEXT || length <= transaction.startState.doc.length) return transaction;
    options.onRefused(length);
    return [];
  }

  return {
    replace: (text) => {
      if (text === textOf(view.state)) return;
      isReplacing = true;
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } });
      isReplacing = false;
    },
    show: (faults) => {
      view.dispatch(
        setDiagnostics(
          view.state,
          faults.map((fault) => diagnosticOf(fault, view.state)),
        ),
      );
    },
    moveTo: (fault) => {
      const anchor = positionOf(fault, view.state);
      view.dispatch({ selection: { anchor }, effects: EditorView.scrollIntoView(anchor, { y: "center" }) });
      view.focus();
    },
    destroy: () => {
      view.destroy();
    },
  };
}

/** Inserts what is typed as CodeMirror would after the browser has: over coloured text a browser writes inline styles. */
function insertText(event: InputEvent, view: EditorView): boolean {
  const text = event.data;
  if (event.inputType !== "insertText" || text === null || view.composing || view.state.readOnly) return false;
  event.preventDefault();
  const { from, to } = view.state.selection.main;
  const insert = (): Transaction =>
    view.state.update(view.state.replaceSelection(text), { userEvent: "input.type", scrollIntoView: true });
  if (!view.state.facet(EditorView.inputHandler).some((handler) => handler(view, from, to, text, insert))) {
    view.dispatch(insert());
  }
  return true;
}

function textOf(state: EditorState): string {
  return state.sliceDoc();
}

/** The position of a fault: by its line, because a text with other line ends has other offsets. */
function positionOf(fault: Fault, state: EditorState): number {
  const line = state.doc.line(Math.min(Math.max(fault.line, 1), state.doc.lines));
  return Math.min(line.from + fault.column - 1, line.to);
}

function diagnosticOf(fault: Fault, state: EditorState): Diagnostic {
  const from = positionOf(fault, state);
  const to = Math.min(from + fault.length, state.doc.lineAt(from).to);
  return { from, to, severity: "error", message: fault.message };
}

function hover(view: EditorView, position: number, language: Language) {
  const line = view.state.doc.lineAt(position);
  const found = [...line.text.matchAll(/[\w.-]+(?=\s*:)/g)].find(
    (match) => line.from + match.index <= position && position <= line.from + match.index + match[0].length,
  );
  if (found === undefined) return null;
  const from = line.from + found.index;
  const meaning = meaningAt(view.state.doc.sliceString(0, line.to), from, found[0], language);
  if (meaning === null) return null;
  return {
    pos: from,
    end: from + found[0].length,
    create: () => {
      const dom = document.createElement("div");
      dom.className = "cm-meaning";
      dom.textContent = meaning;
      return { dom };
    },
  };
}
