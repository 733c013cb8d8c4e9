/** The page: its views by address, and the token of this tab. */

import { useState } from "preact/hooks";
import { token } from "./api";
import { Ask } from "./ask/ask";
import { Fleet } from "./fleet/fleet";
import { lazyView } from "./lazy";
import { Rules } from "./rules/rules";
import { giveToken } from "./token";

const Edit = lazyView(async () => (await import("./edit/edit")).Edit);
const VIEWS = [
  { path: "", name: "Ask", view: Ask },
  { path: "rules", name: "Rules", view: Rules },
  { path: "edit", name: "Edit", view: Edit },
  { path: "fleet", name: "Fleet", view: Fleet },
] as const;

function TokenForm() {
  const [has, setHas] = useState(token() !== "");
  const submit = (event: SubmitEvent): void => {
    event.preventDefault();
    const form = event.currentTarget as HTMLFormElement;
    const data = new FormData(form).get("token");
    giveToken(typeof data === "string" ? data.trim() : "");
    setHas(token() !== "");
    form.reset();
    form.closest("details")?.removeAttribute("open");
  };
  return (
    <details class="token">
      <summary>{has ? "Token given" : "Token"}</summary>
      <form onSubmit={submit}>
        <label>
          Token <input name="token" type="password" autocomplete="off" />
        </label>
        <button type="submit">Keep in this tab</button>
        <p>It is sent to this service only, and forgotten when the tab is closed. An empty one removes it.</p>
      </form>
    </details>
  );
}

export function App() {
  const name = location.pathname.slice(location.pathname.lastIndexOf("/") + 1);
  const current = VIEWS.find((each) => each.path === name) ?? VIEWS[0];
  const View = current.view;
  return (
    <>
      <header>
        <a class="title" href="./">
          Runner Policy
        </a>
        <nav aria-label="Views">
          {VIEWS.map((each) => (
            <a key={each.path} href={`./${each.path}`} aria-current={each === current ? "page" : undefined}>
              {each.name}
            </a>
          ))}
          <a href="./docs">API</a>
        </nav>
        <TokenForm />
      </header>
      <View />
    </>
  );
}
