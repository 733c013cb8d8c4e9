/** A link to the view Ask that has a request in it. */

import { useEffect, useState } from "preact/hooks";
import { encoded } from "../fragment";

export function AskLink({ request, name }: { readonly request: object; readonly name: string }) {
  const [fragment, setFragment] = useState("");
  const text = JSON.stringify(request, null, 2);
  useEffect(() => {
    let isCurrent = true;
    encoded({ text }).then(
      (found) => {
        if (isCurrent) setFragment(found);
      },
      () => undefined,
    );
    return () => {
      isCurrent = false;
    };
  }, [text]);
  return fragment === "" ? null : <a href={`./#${fragment}`}>{name}</a>;
}
