/** A view whose code is loaded when it is opened, so that the others stay small. */

import type { FunctionComponent } from "preact";
import { useEffect, useState } from "preact/hooks";

type Loaded = { readonly View: FunctionComponent } | "loading" | "failed";

/** The view that `load` brings; while it is loaded, and if it cannot be, the page says so. */
export function lazyView(load: () => Promise<FunctionComponent>): FunctionComponent {
  return function Lazy() {
    const [loaded, setLoaded] = useState<Loaded>("loading");
    useEffect(() => {
      load().then(
        (View) => {
          setLoaded({ View });
        },
        () => {
          setLoaded("failed");
        },
      );
    }, []);
    if (typeof loaded === "object") return <loaded.View />;
    return (
      <main>
        <section class="card" role="status">
          {loaded === "loading" ? (
            "Loading …"
          ) : (
            <>
              <h1>This view cannot be loaded</h1>
              <p>The service cannot be reached, or has another version by now. Load the page again.</p>
            </>
          )}
        </section>
      </main>
    );
  };
}
