/** The text that is asked about, with the evidence of the answer marked in it. */

import type { JSX } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import type { Span } from "./json_places";

/** The longest text that is edited: a browser takes a second for a key in one of ten thousand lines. */
const MAX_EDITED = 1 << 16;
const MAX_SHOWN = 20_000;
/** The longest text that the browser pastes by itself. */
const MAX_PASTED = 1 << 14;
const PLACEHOLDER =
  "vllm serve MODEL …\n\nor facts, a deployment, a Kubernetes manifest, a Compose file, a chart's values, a script\n\n" +
  "Files and folders can be dropped here.";

function Marked({ text, marks }: { readonly text: string; readonly marks: readonly Span[] }) {
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

/** A text that is too long to be edited here without delay: the part of it that is about the engine. */
function LongText(properties: { readonly text: string; readonly span: Span; readonly marks: readonly Span[] }) {
  const { text, span } = properties;
  const end = Math.min(span.end, span.start + MAX_SHOWN);
  const marks = properties.marks.filter((mark) => mark.start >= span.start && mark.end <= end);
  const within = marks.map((mark) => ({ start: mark.start - span.start, end: mark.end - span.start }));
  const isPart = span.start > 0 || end < text.length;
  return (
    <div class="long-text">
      <p class="from">
        {text.length.toLocaleString("en")} characters, too many to edit here.
        {isPart && ` Shown are ${(end - span.start).toLocaleString("en")} of them.`}
      </p>
      <pre tabIndex={0} role="region" aria-label="The part of the text that is shown">
        <Marked text={text.slice(span.start, end)} marks={within} />
      </pre>
    </div>
  );
}

interface EditorProperties {
  readonly text: string;
  /** The part that is about the engine that is shown. */
  readonly span: Span;
  readonly marks: readonly Span[];
  readonly onText: (text: string) => void;
}

function EditedText(properties: EditorProperties) {
  const behind = useRef<HTMLPreElement>(null);
  const field = useRef<HTMLTextAreaElement>(null);
  const follow = (): void => {
    if (behind.current === null || field.current === null) return;
    behind.current.scrollTop = field.current.scrollTop;
    behind.current.scrollLeft = field.current.scrollLeft;
  };
  useLayoutEffect(follow, [properties.marks]); // what is empty cannot be scrolled
  return (
    <div class="editor">
      <pre ref={behind} aria-hidden="true">
        {properties.marks.length > 0 && <Marked text={properties.text} marks={properties.marks} />}
      </pre>
      <textarea
        aria-label="A command, a deployment, facts or a manifest"
        placeholder={PLACEHOLDER}
        spellcheck={false}
        value={properties.text}
        ref={field}
        onScroll={follow}
        onPaste={(event) => {
          const text = event.clipboardData?.getData("text/plain") ?? "";
          if (text.length <= MAX_PASTED) return;
          // the browser would take a minute for one of many lines
          event.preventDefault();
          const { selectionStart, selectionEnd, value } = event.currentTarget;
          properties.onText(value.slice(0, selectionStart) + text + value.slice(selectionEnd));
        }}
        onInput={(event) => {
          properties.onText(event.currentTarget.value);
        }}
      />
    </div>
  );
}

export function Editor(properties: EditorProperties) {
  return properties.text.length > MAX_EDITED ? <LongText {...properties} /> : <EditedText {...properties} />;
}
