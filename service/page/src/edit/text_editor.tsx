/** The editor of one text as a component. */

import { useEffect, useRef } from "preact/hooks";
import type { Language } from "./completion";
import { createEditor, type Editor } from "./editor";
import type { Fault } from "./faults";

export function TextEditor(properties: {
  readonly label: string;
  /** The text to begin with; afterwards the editor has it, until another `revision`. */
  readonly text: string;
  readonly revision: number;
  readonly language: Language;
  readonly faults: readonly Fault[];
  /** A fault to go to; a new object goes there again. */
  readonly target: Fault | null;
  readonly onText: (text: string) => void;
  readonly onRefused: (characters: number) => void;
}) {
  const parent = useRef<HTMLDivElement>(null);
  const editor = useRef<Editor | null>(null);
  const latest = useRef(properties);
  useEffect(() => {
    latest.current = properties;
  });
  const { label, revision, faults, target } = properties;
  useEffect(() => {
    if (parent.current === null) return undefined;
    const made = createEditor({
      parent: parent.current,
      label,
      text: latest.current.text,
      language: () => latest.current.language,
      onText: (changed) => {
        latest.current.onText(changed);
      },
      onRefused: (characters) => {
        latest.current.onRefused(characters);
      },
    });
    editor.current = made;
    return () => {
      editor.current = null;
      made.destroy();
    };
  }, [label]);
  useEffect(() => {
    editor.current?.replace(latest.current.text);
  }, [revision]);
  useEffect(() => {
    editor.current?.show(faults);
  }, [faults]);
  useEffect(() => {
    if (target !== null) editor.current?.moveTo(target);
  }, [target]);
  return <div class="code-editor" ref={parent} />;
}
