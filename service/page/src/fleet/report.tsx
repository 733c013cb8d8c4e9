/** Starts the report: the view of a fleet with the data that the file has. */

import { render } from "preact";
import { useCallback, useMemo, useState } from "preact/hooks";
import "../page.css";
import { FleetView } from "./fleet_view";
import { useLink } from "./link";
import { unpackedText } from "./packed";
import type { FleetResult } from "./result";
import { NO_VIEW, shortened, type View, viewOf } from "./view_state";

function Report({ result }: { readonly result: FleetResult }) {
  const [view, setView] = useState<View>(NO_VIEW);
  const short = useMemo(() => shortened(view), [view]);
  const onRead = useCallback((value: unknown) => {
    setView(viewOf(value));
  }, []);
  useLink(short, short, view.open, onRead);
  const rules = useMemo(() => {
    const texts = new Map(result.rules.map((rule) => [rule.id, rule]));
    return { texts, address: null };
  }, [result]);
  return (
    <>
      <header>
        <span class="title">Runner Policy</span>
        <span class="from">
          {result.day !== "" && `decided for ${result.day}`}
          {result.revision !== "" && ` by the rules ${result.revision.slice(0, 19)}`}
        </span>
      </header>
      <FleetView result={result} view={view} rules={rules} onView={setView} />
    </>
  );
}

const root = document.getElementById("page");
const data = document.getElementById("data")?.textContent ?? "";
if (root !== null)
  unpackedText(data).then(
    (value) => {
      const result = value as FleetResult;
      document.title = `${result.title} · Runner Policy`;
      root.textContent = "";
      render(<Report result={result} />, root);
    },
    () => {
      root.textContent = "The data of this report cannot be read: the file is not whole. Make it again.";
    },
  );
